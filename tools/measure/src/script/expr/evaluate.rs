//! Running an expression.

use super::super::random::Random;
use super::super::value::{Scalar, Value};
use super::{Expression, Function, Op};

/// The environment of an expression.
pub(in crate::script) struct Scope<'a> {
    /// The variables by the number of their name; `None` is one that was never set.
    pub(in crate::script) variables: &'a [Option<Value>],
    /// The names, for errors.
    pub(in crate::script) names: &'a [String],
    pub(in crate::script) random: &'a mut Random,
    /// Borrowed, so that its memory is reused for the next expression.
    pub(in crate::script) stack: &'a mut Vec<Scalar>,
    /// The place that `debug` prints in front of a value.
    pub(in crate::script) place: &'a dyn Fn() -> String,
}

impl Expression {
    /// Its value.
    ///
    /// # Errors
    /// An overflow, a division by zero, a value of the wrong type, an unknown variable: as pgbench,
    /// without the place.
    pub(in crate::script) fn value(&self, scope: &mut Scope<'_>) -> Result<Scalar, String> {
        scope.stack.clear();
        let mut at = 0;
        while let Some(op) = self.0.get(at) {
            at = scope.step(*op, at + 1)?;
        }
        Ok(scope.pop())
    }
}

impl Scope<'_> {
    /// Does one step, and returns the next one.
    fn step(&mut self, op: Op, next: usize) -> Result<usize, String> {
        match op {
            Op::Push(value) => self.stack.push(value),
            Op::Variable(number) => {
                let value = self.variable(number)?;
                self.stack.push(value);
            }
            Op::Call(function, count) => self.call(function, count)?,
            Op::Jump(to) => return Ok(to),
            Op::JumpUnless(to) => {
                if !self.pop().is_truthy() {
                    return Ok(to);
                }
            }
            Op::And(to) => return self.decide(false, to, next),
            Op::Or(to) => return self.decide(true, to, next),
            Op::Truth => {
                let value = self.pop();
                let value =
                    if value == Scalar::Null { value } else { Scalar::Bool(value.to_bool()?) };
                self.stack.push(value);
            }
        }
        Ok(next)
    }

    /// A left side that is NULL decides too: pgbench then ignores the right side.
    fn decide(&mut self, deciding: bool, to: usize, next: usize) -> Result<usize, String> {
        let left = self.pop();
        if left == Scalar::Null || left.to_bool()? == deciding {
            self.stack.push(left);
            return Ok(to);
        }
        Ok(next)
    }

    fn call(&mut self, function: Function, count: usize) -> Result<(), String> {
        let first = self.stack.len().saturating_sub(count);
        if function == Function::Swap {
            self.stack[first..].reverse();
            return Ok(());
        }
        let value = function.apply(&self.stack[first..], self.random)?;
        if function == Function::Debug {
            eprintln!("debug({}): {}", (self.place)(), value.described());
        }
        self.stack.truncate(first);
        self.stack.push(value);
        Ok(())
    }

    fn variable(&self, number: usize) -> Result<Scalar, String> {
        let name = &self.names[number];
        match &self.variables[number] {
            Some(value) => value.to_scalar(name),
            None => Err(format!("undefined variable \"{name}\"")),
        }
    }

    /// Takes a value off the stack. The parser guarantees that there is one.
    fn pop(&mut self) -> Scalar {
        self.stack.pop().unwrap_or(Scalar::Null)
    }
}
