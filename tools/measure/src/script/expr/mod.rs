//! The expressions of `\set` and `\if`: parsed once into a program for a stack, so that neither
//! running nor dropping one needs more of the thread's own stack than a call.

mod evaluate;
mod functions;
mod hash;
mod number;
mod parse;
mod token;

#[cfg(test)]
mod tests;

use super::names::Names;
use super::value::Scalar;
pub(super) use evaluate::Scope;
pub(super) use number::format_double;
pub(super) use token::{is_word, shortened, word_len};

use functions::Function;

/// An expression that was parsed. Its variables are numbers, those of the names it was parsed with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression(Vec<Op>);

/// One step: values are taken off the stack, and one is put onto it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Push(Scalar),
    Variable(usize),
    /// A function or an operator, with its number of arguments.
    Call(Function, usize),
    Jump(usize),
    /// Takes the condition of a CASE.
    JumpUnless(usize),
    /// The left side of AND and OR decides, or goes and leaves the decision to the right one.
    And(usize),
    Or(usize),
    /// What the right side of AND and OR has to be.
    Truth,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// What is wrong with it, without the place.
    pub(super) fn parse(text: &str, names: &mut Names) -> Result<Expression, String> {
        parse::parse(text, names).map(Expression)
    }

    /// The variables that it may look at.
    pub(super) fn variables(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|op| match op {
            Op::Variable(number) => Some(*number),
            _ => None,
        })
    }

    /// The same with other numbers for its variables.
    pub(super) fn renumbered(mut self, numbers: &[usize]) -> Expression {
        for op in &mut self.0 {
            if let Op::Variable(number) = op {
                *number = numbers[*number];
            }
        }
        self
    }
}
