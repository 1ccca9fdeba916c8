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
        /// Only where there is none.
        None = b"NX",
        /// Only where there is one.
        Some = b"XX",
        /// Only where it is later than the one that there is.
        Later = b"GT",
        /// Only where it is earlier than the one that there is, or there is none.
        Earlier = b"LT",
    }
}
