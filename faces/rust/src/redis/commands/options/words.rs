//! Choices between a few words.

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $choice:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$of])* $choice,)*
        }

        impl onetrip_redis::ToArg for $name {
            fn write_to(&self, command: &mut onetrip_redis::Command) {
                command.push(match self {
                    $($name::$choice => $word,)*
                });
            }
        }
    )*};
}

pub(super) use words;

words! {
    /// An end of a list.
    Side {
        /// Its beginning.
        Left = b"LEFT",
        /// Its end.
        Right = b"RIGHT",
    }
    /// An end of a sorted set.
    End {
        /// The lowest scores.
        Min = b"MIN",
        /// The highest scores.
        Max = b"MAX",
    }
    /// When an expiry is set.
    ExpireIf {
        /// Only if there is none.
        None = b"NX",
        /// Only if there is one.
        Some = b"XX",
        /// Only if it is later than the present one.
        Later = b"GT",
        /// Only if it is earlier than the present one, or if there is none.
        Earlier = b"LT",
    }
}
