//! The functions and the operators.

use super::super::random::Random;
use super::super::value::Scalar;
use super::hash;

/// A function or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::script) enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    Is,
    /// Exchanges the two values on top.
    Swap,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Pow,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

use Function as F;

/// Names, with the least and the greatest number of arguments.
const NAMED: [(&str, Function, usize, usize); 21] = [
    ("abs", F::Abs, 1, 1),
    ("debug", F::Debug, 1, 1),
    ("double", F::Double, 1, 1),
    ("exp", F::Exp, 1, 1),
    ("greatest", F::Greatest, 1, usize::MAX),
    ("hash", F::HashMurmur2, 1, 2),
    ("hash_fnv1a", F::HashFnv1a, 1, 2),
    ("hash_murmur2", F::HashMurmur2, 1, 2),
    ("int", F::Int, 1, 1),
    ("least", F::Least, 1, usize::MAX),
    ("ln", F::Ln, 1, 1),
    ("mod", F::Mod, 2, 2),
    ("permute", F::Permute, 2, 3),
    ("pi", F::Pi, 0, 0),
    ("pow", F::Pow, 2, 2),
    ("power", F::Pow, 2, 2),
    ("random", F::Random, 2, 2),
    ("random_exponential", F::RandomExponential, 3, 3),
    ("random_gaussian", F::RandomGaussian, 3, 3),
    ("random_zipfian", F::RandomZipfian, 3, 3),
    ("sqrt", F::Sqrt, 1, 1),
];

impl Function {
    /// By its name, in any case.
    pub(super) fn find(name: &str) -> Option<Function> {
        NAMED.iter().find(|known| known.0.eq_ignore_ascii_case(name)).map(|known| known.1)
    }

    pub(super) fn check_count(self, given: usize) -> Result<(), String> {
        let Some((name, _, least, most)) = NAMED.iter().find(|known| known.1 == self) else {
            return Ok(());
        };
        match given {
            0 if *most == usize::MAX => Err(format!("at least one argument expected ({name})")),
            _ if (*least..=*most).contains(&given) => Ok(()),
            _ => Err(format!("unexpected number of arguments ({name})")),
        }
    }

    /// Whether the seed was left out.
    pub(super) fn wants_seed(self, given: usize) -> bool {
        match self {
            F::HashFnv1a | F::HashMurmur2 => given == 1,
            F::Permute => given == 2,
            _ => false,
        }
    }

    /// Its value. NULL gives NULL, except for functions that test for it.
    pub(super) fn apply(self, values: &[Scalar], random: &mut Random) -> Result<Scalar, String> {
        let sees_null = matches!(self, F::Is | F::Debug);
        if !sees_null && values.contains(&Scalar::Null) {
            return Ok(Scalar::Null);
        }
        match (self, values) {
            (F::Pi, _) => Ok(Scalar::Double(std::f64::consts::PI)),
            (F::Greatest | F::Least, values) => extreme(self, values),
            (_, [value]) => self.of_one(*value),
            (_, [left, right]) => self.of_two(*left, *right, random),
            (_, [first, second, third]) => self.of_three(*first, *second, *third, random),
            _ => Err("unexpected number of arguments".into()),
        }
    }

    fn of_one(self, value: Scalar) -> Result<Scalar, String> {
        let double = |f: fn(f64) -> f64| Ok(Scalar::Double(f(value.to_double()?)));
        match self {
            F::Not => Ok(Scalar::Bool(!value.to_bool()?)),
            F::Abs => Ok(match value {
                Scalar::Double(value) => Scalar::Double(value.abs()),
                value => Scalar::Int(value.to_int()?.wrapping_abs()),
            }),
            F::Int => Ok(Scalar::Int(value.to_int()?)),
            F::Double => double(|value| value),
            F::Exp => double(f64::exp),
            F::Ln => double(f64::ln),
            F::Sqrt => double(f64::sqrt),
            _ => Ok(value),
        }
    }

    fn of_two(self, left: Scalar, right: Scalar, random: &mut Random) -> Result<Scalar, String> {
        match self {
            F::Is => Ok(Scalar::Bool(left.is(right))),
            F::Pow => Ok(Scalar::Double(left.to_double()?.powf(right.to_double()?))),
            F::Random => random.uniform(left.to_int()?, right.to_int()?).map(Scalar::Int),
            F::HashFnv1a => Ok(Scalar::Int(hash::fnv1a(left.to_int()?, right.to_int()?))),
            F::HashMurmur2 => Ok(Scalar::Int(hash::murmur2(left.to_int()?, right.to_int()?))),
            F::Mod | F::BitAnd | F::BitOr | F::BitXor | F::ShiftLeft | F::ShiftRight => {
                self.of_integers(left.to_int()?, right.to_int()?)
            }
            _ => match (left, right) {
                (Scalar::Double(_), _) | (_, Scalar::Double(_)) => {
                    Ok(self.of_doubles(left.to_double()?, right.to_double()?))
                }
                _ => self.of_integers(left.to_int()?, right.to_int()?),
            },
        }
    }

    fn of_doubles(self, left: f64, right: f64) -> Scalar {
        match self {
            F::Add => Scalar::Double(left + right),
            F::Sub => Scalar::Double(left - right),
            F::Mul => Scalar::Double(left * right),
            F::Div => Scalar::Double(left / right),
            F::Equal => Scalar::Bool(left == right),
            F::NotEqual => Scalar::Bool(left != right),
            F::Less => Scalar::Bool(left < right),
            _ => Scalar::Bool(left <= right),
        }
    }

    fn of_integers(self, left: i64, right: i64) -> Result<Scalar, String> {
        let in_range = |value: Option<i64>, name: &str| {
            value.map(Scalar::Int).ok_or_else(|| format!("bigint {name} out of range"))
        };
        if matches!(self, F::Div | F::Mod) && right == 0 {
            return Err("division by zero".into());
        }
        match self {
            F::Add => in_range(left.checked_add(right), "add"),
            F::Sub => in_range(left.checked_sub(right), "sub"),
            F::Mul => in_range(left.checked_mul(right), "mul"),
            F::Div => in_range(left.checked_div(right), "div"),
            F::Mod => Ok(Scalar::Int(left.wrapping_rem(right))),
            F::Equal => Ok(Scalar::Bool(left == right)),
            F::NotEqual => Ok(Scalar::Bool(left != right)),
            F::Less => Ok(Scalar::Bool(left < right)),
            F::LessEqual => Ok(Scalar::Bool(left <= right)),
            F::BitAnd => Ok(Scalar::Int(left & right)),
            F::BitOr => Ok(Scalar::Int(left | right)),
            F::BitXor => Ok(Scalar::Int(left ^ right)),
            // Only the lower six bits of the width count, as on common processors.
            F::ShiftLeft => Ok(Scalar::Int(left.wrapping_shl(right as u32))),
            _ => Ok(Scalar::Int(left.wrapping_shr(right as u32))),
        }
    }

    fn of_three(
        self,
        first: Scalar,
        second: Scalar,
        third: Scalar,
        random: &mut Random,
    ) -> Result<Scalar, String> {
        let (low, high) = (first.to_int()?, second.to_int()?);
        if self == F::Permute {
            let size = u64::try_from(high).ok().filter(|size| *size > 0);
            let size = size.ok_or("permute size parameter must be greater than zero")?;
            return Ok(Scalar::Int(hash::permute(low, size, third.to_int()?)));
        }
        let parameter = third.to_double()?;
        let value = match self {
            F::RandomExponential => random.exponential(low, high, parameter),
            F::RandomGaussian => random.gaussian(low, high, parameter),
            _ => random.zipfian(low, high, parameter),
        };
        value.map(Scalar::Int)
    }
}

/// `least` and `greatest`: an integer for integers; with one double, all are converted to doubles.
fn extreme(function: Function, values: &[Scalar]) -> Result<Scalar, String> {
    let least = function == F::Least;
    if values.iter().any(|value| matches!(value, Scalar::Double(_))) {
        let mut chosen = values[0].to_double()?;
        for value in &values[1..] {
            let value = value.to_double()?;
            let better = if least { value < chosen } else { value > chosen };
            chosen = if better { value } else { chosen };
        }
        return Ok(Scalar::Double(chosen));
    }
    let mut chosen = values[0].to_int()?;
    for value in &values[1..] {
        let value = value.to_int()?;
        chosen = if least { chosen.min(value) } else { chosen.max(value) };
    }
    Ok(Scalar::Int(chosen))
}
