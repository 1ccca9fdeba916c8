//! The types that may be a row of a batch.

use postgres_types::ToSql;

/// A row of a batch: the parameters of a statement for one run of it.
///
/// Implemented for tuples of up to sixteen values of any types; for arrays, slices and `Vec`s of
/// `&(dyn ToSql + Sync)` or of boxes of it; and for references to all of these. For a type of your
/// own:
///
/// ```
/// use onetrip::ParameterSet;
/// use onetrip::types::ToSql;
///
/// struct Reading { sensor: i32, value: f64 }
///
/// impl ParameterSet for Reading {
///     fn count(&self) -> usize { 2 }
///     fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
///         match number { 0 => &self.sensor, _ => &self.value }
///     }
/// }
/// ```
pub trait ParameterSet {
    /// How many parameters there are.
    fn count(&self) -> usize;

    /// The parameter with this number: `$1` is 0. Only called for numbers below
    /// [`count`](Self::count).
    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync);
}

impl<T: ParameterSet + ?Sized> ParameterSet for &T {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        (**self).parameter(number)
    }
}

/// The elements of a list of parameters: a reference to a value of any type, or a box of one.
pub trait Parameter: sealed::Sealed {
    #[doc(hidden)]
    fn as_parameter(&self) -> &(dyn ToSql + Sync);
}

impl Parameter for &(dyn ToSql + Sync) {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        *self
    }
}

impl Parameter for Box<dyn ToSql + Sync> {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        &**self
    }
}

impl Parameter for Box<dyn ToSql + Sync + Send> {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        &**self
    }
}

impl<T: Parameter> ParameterSet for [T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        self[number].as_parameter()
    }
}

impl<T: Parameter, const N: usize> ParameterSet for [T; N] {
    fn count(&self) -> usize {
        N
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        self[number].as_parameter()
    }
}

impl<T: Parameter> ParameterSet for Vec<T> {
    fn count(&self) -> usize {
        self.len()
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        self[number].as_parameter()
    }
}

impl ParameterSet for () {
    fn count(&self) -> usize {
        0
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        panic!("there is no parameter {number}")
    }
}

macro_rules! tuples {
    ($count:literal: $($type:ident $number:tt),+) => {
        impl<$($type: ToSql + Sync),+> ParameterSet for ($($type,)+) {
            fn count(&self) -> usize {
                $count
            }

            #[inline]
            fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
                match number {
                    $($number => &self.$number,)+
                    _ => panic!("there is no parameter {number}"),
                }
            }
        }
    };
}

tuples!(1: A 0);
tuples!(2: A 0, B 1);
tuples!(3: A 0, B 1, C 2);
tuples!(4: A 0, B 1, C 2, D 3);
tuples!(5: A 0, B 1, C 2, D 3, E 4);
tuples!(6: A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuples!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuples!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuples!(11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuples!(12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
tuples!(13: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
tuples!(14: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
tuples!(15: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
tuples!(16: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);

mod sealed {
    use super::ToSql;

    pub trait Sealed {}
    impl Sealed for &(dyn ToSql + Sync) {}
    impl Sealed for Box<dyn ToSql + Sync> {}
    impl Sealed for Box<dyn ToSql + Sync + Send> {}
}
