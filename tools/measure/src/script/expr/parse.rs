//! From words to steps: precedence climbing.

use super::super::names::{DEFAULT_SEED, Names};
use super::super::value::Scalar;
use super::token::{Token, next, shortened};
use super::{Function, Op};

/// How deep an expression may be nested. Each level takes some hundred bytes of the thread's stack.
const DEPTH_MAX: usize = 200;

/// How tightly an operator binds, from OR to the signs.
mod binding {
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const IS: u8 = 4;
    pub(super) const COMPARISON: u8 = 5;
    pub(super) const BITS: u8 = 6;
    pub(super) const SUM: u8 = 7;
    pub(super) const PRODUCT: u8 = 8;
    pub(super) const SIGN: u8 = 9;
}

pub(super) fn parse(text: &str, names: &mut Names) -> Result<Vec<Op>, String> {
    let (token, rest) = next(text)?;
    let mut parser = Parser { token, rest, names, ops: Vec::new(), depth: 0 };
    parser.expression(0)?;
    match parser.token {
        Token::End => Ok(parser.ops),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    token: Token<'a>,
    rest: &'a str,
    names: &'a mut Names,
    ops: Vec<Op>,
    depth: usize,
}

/// What stands between two operands.
#[derive(Clone, Copy)]
enum Infix {
    And,
    Or,
    Call(Function),
    /// The same with its arguments the other way round.
    Swapped(Function),
}

impl<'a> Parser<'a> {
    /// An operand, and all behind it that binds at least so tightly.
    fn expression(&mut self, least: u8) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression is nested deeper than {DEPTH_MAX} levels"));
        }
        self.operand()?;
        let mut compared = false;
        loop {
            if least <= binding::IS && self.is_test()? {
                compared = false;
                continue;
            }
            let Some((level, infix)) = self.infix() else { break };
            if level < least {
                break;
            }
            if level == binding::COMPARISON && std::mem::replace(&mut compared, true) {
                return Err(self.unexpected());
            }
            compared &= level >= binding::COMPARISON;
            self.advance()?;
            self.right_side(level, infix)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn right_side(&mut self, level: u8, infix: Infix) -> Result<(), String> {
        let at = self.ops.len();
        match infix {
            Infix::And | Infix::Or => self.ops.push(Op::Jump(0)),
            Infix::Call(_) | Infix::Swapped(_) => {}
        }
        self.expression(level + 1)?;
        match infix {
            Infix::Call(function) => self.ops.push(Op::Call(function, 2)),
            Infix::Swapped(function) => {
                self.ops.extend([Op::Call(Function::Swap, 2), Op::Call(function, 2)]);
            }
            Infix::And | Infix::Or => {
                self.ops.push(Op::Truth);
                let end = self.ops.len();
                let and = matches!(infix, Infix::And);
                self.ops[at] = if and { Op::And(end) } else { Op::Or(end) };
            }
        }
        Ok(())
    }

    fn infix(&self) -> Option<(u8, Infix)> {
        use Function::{
            Add, BitAnd, BitOr, BitXor, Div, Equal, Less, LessEqual, Mod, Mul, NotEqual, ShiftLeft,
            ShiftRight, Sub,
        };
        let call = |level, function| Some((level, Infix::Call(function)));
        match self.token {
            Token::Word(word) if word.eq_ignore_ascii_case("and") => {
                Some((binding::AND, Infix::And))
            }
            Token::Word(word) if word.eq_ignore_ascii_case("or") => Some((binding::OR, Infix::Or)),
            Token::Symbol(symbol) => match symbol {
                "=" => call(binding::COMPARISON, Equal),
                "<>" | "!=" => call(binding::COMPARISON, NotEqual),
                "<" => call(binding::COMPARISON, Less),
                "<=" => call(binding::COMPARISON, LessEqual),
                ">" => Some((binding::COMPARISON, Infix::Swapped(Less))),
                ">=" => Some((binding::COMPARISON, Infix::Swapped(LessEqual))),
                "|" => call(binding::BITS, BitOr),
                "#" => call(binding::BITS, BitXor),
                "&" => call(binding::BITS, BitAnd),
                "<<" => call(binding::BITS, ShiftLeft),
                ">>" => call(binding::BITS, ShiftRight),
                "+" => call(binding::SUM, Add),
                "-" => call(binding::SUM, Sub),
                "*" => call(binding::PRODUCT, Mul),
                "/" => call(binding::PRODUCT, Div),
                "%" => call(binding::PRODUCT, Mod),
                _ => None,
            },
            _ => None,
        }
    }

    /// IS, ISNULL and NOTNULL, which stand behind their operand.
    fn is_test(&mut self) -> Result<bool, String> {
        let Token::Word(word) = self.token else { return Ok(false) };
        let (tested, negated) = match word.to_ascii_lowercase().as_str() {
            "isnull" => (Scalar::Null, false),
            "notnull" => (Scalar::Null, true),
            "is" => {
                self.advance()?;
                let negated = self.take_word("not")?;
                let tested = self.constant_word().ok_or_else(|| self.unexpected())?;
                (tested, negated)
            }
            _ => return Ok(false),
        };
        self.advance()?;
        self.ops.extend([Op::Push(tested), Op::Call(Function::Is, 2)]);
        if negated {
            self.ops.push(Op::Call(Function::Not, 1));
        }
        Ok(true)
    }

    fn constant_word(&self) -> Option<Scalar> {
        let Token::Word(word) = self.token else { return None };
        match word.to_ascii_lowercase().as_str() {
            "null" => Some(Scalar::Null),
            "true" => Some(Scalar::Bool(true)),
            "false" => Some(Scalar::Bool(false)),
            _ => None,
        }
    }

    fn operand(&mut self) -> Result<(), String> {
        let token = self.token;
        let constant = self.constant_word();
        match token {
            Token::Word(word) if constant.is_none() => return self.word(word),
            Token::Int(_) | Token::Double(_) | Token::Variable(_) | Token::Word(_) => {}
            Token::Symbol("-") => return self.negative(),
            Token::Symbol("(") => return self.parentheses(),
            Token::Symbol(sign @ ("+" | "~")) => {
                self.advance()?;
                self.expression(binding::SIGN)?;
                if sign == "~" {
                    self.push(Scalar::Int(-1));
                    self.ops.push(Op::Call(Function::BitXor, 2));
                }
                return Ok(());
            }
            _ => return Err(self.unexpected()),
        }
        let op = match token {
            Token::Int(number) => Op::Push(Scalar::Int(number)),
            Token::Double(number) => Op::Push(Scalar::Double(number)),
            Token::Variable(name) => Op::Variable(self.names.number_of(name)),
            _ => Op::Push(constant.unwrap_or(Scalar::Null)),
        };
        self.ops.push(op);
        self.advance()
    }

    /// A minus is a subtraction from 0, but for the one number that has no positive.
    fn negative(&mut self) -> Result<(), String> {
        self.advance()?;
        if self.token == Token::IntMinNegated {
            self.push(Scalar::Int(i64::MIN));
            return self.advance();
        }
        self.push(Scalar::Int(0));
        self.expression(binding::SIGN)?;
        self.ops.push(Op::Call(Function::Sub, 2));
        Ok(())
    }

    fn parentheses(&mut self) -> Result<(), String> {
        self.advance()?;
        self.expression(0)?;
        self.expect(")")
    }

    /// What begins with a word that is no constant.
    fn word(&mut self, word: &'a str) -> Result<(), String> {
        if word.eq_ignore_ascii_case("case") {
            return self.case();
        }
        if word.eq_ignore_ascii_case("not") {
            self.advance()?;
            self.expression(binding::NOT)?;
            self.ops.push(Op::Call(Function::Not, 1));
            return Ok(());
        }
        let function = Function::find(word)
            .ok_or_else(|| format!("unexpected function name ({})", shortened(word)))?;
        self.advance()?;
        self.expect("(")?;
        let given = self.arguments()?;
        function.check_count(given)?;
        let count = if function.wants_seed(given) {
            self.ops.push(Op::Variable(self.names.number_of(DEFAULT_SEED)));
            given + 1
        } else {
            given
        };
        self.ops.push(Op::Call(function, count));
        Ok(())
    }

    fn arguments(&mut self) -> Result<usize, String> {
        let mut count = 0;
        if self.token == Token::Symbol(")") {
            self.advance()?;
            return Ok(count);
        }
        loop {
            self.expression(0)?;
            count += 1;
            if self.token != Token::Symbol(",") {
                self.expect(")")?;
                return Ok(count);
            }
            self.advance()?;
        }
    }

    fn case(&mut self) -> Result<(), String> {
        self.advance()?;
        let mut ends = Vec::new();
        while self.take_word("when")? {
            self.expression(0)?;
            let condition = self.ops.len();
            self.ops.push(Op::JumpUnless(0));
            self.expect_word("then")?;
            self.expression(0)?;
            ends.push(self.ops.len());
            self.ops.push(Op::Jump(0));
            self.ops[condition] = Op::JumpUnless(self.ops.len());
        }
        if ends.is_empty() {
            return Err(self.unexpected());
        }
        match self.take_word("else")? {
            true => self.expression(0)?,
            false => self.push(Scalar::Null),
        }
        self.expect_word("end")?;
        let behind = self.ops.len();
        ends.into_iter().for_each(|end| self.ops[end] = Op::Jump(behind));
        Ok(())
    }

    fn push(&mut self, value: Scalar) {
        self.ops.push(Op::Push(value));
    }

    fn advance(&mut self) -> Result<(), String> {
        (self.token, self.rest) = next(self.rest)?;
        Ok(())
    }

    fn take_word(&mut self, wanted: &str) -> Result<bool, String> {
        let is_it = matches!(self.token, Token::Word(word) if word.eq_ignore_ascii_case(wanted));
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    fn expect_word(&mut self, wanted: &str) -> Result<(), String> {
        if self.take_word(wanted)? { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), String> {
        if self.token != Token::Symbol(symbol) {
            return Err(self.unexpected());
        }
        self.advance()
    }

    fn unexpected(&self) -> String {
        match self.token {
            Token::End => "syntax error at the end of the expression".into(),
            Token::Int(number) => format!("syntax error at {number}"),
            Token::IntMinNegated => {
                format!("bigint constant overflow ({})", i64::MIN.unsigned_abs())
            }
            Token::Double(number) => format!("syntax error at {number}"),
            Token::Variable(name) => format!("syntax error at :{}", shortened(name)),
            Token::Word(word) => format!("syntax error at {}", shortened(word)),
            Token::Symbol(symbol) => format!("syntax error at {symbol}"),
        }
    }
}
