//! Commands: which kind begins here, and the compound ones.

use super::Parser;
use super::reserved::Reserved;
use super::text::Mode;
use crate::shell::ast::{
    ArithmeticFor, Arm, ArmEnding, Case, Command, CommandKind, Coprocess, For, Function, If,
    Reason, Script, Simple, Test, While,
};
use crate::shell::word::{Part, PartKind, Word};

impl Parser<'_> {
    /// A command with its redirections, if one begins here.
    pub fn command(&mut self) -> Option<Command> {
        self.skip_blanks();
        self.peek()?;
        self.count_command();
        let start = self.pos;
        let kind = match self.peek()? {
            b'(' => self.deeper(|p| Some(p.parenthesis()))?,
            _ => match self.reserved() {
                Some(Reserved::Closing) => return None,
                Some(reserved) => self.deeper(|p| Some(p.compound(reserved)))?,
                None => return self.simple(),
            },
        };
        let redirects = match kind {
            // A function's redirections belong to its body.
            CommandKind::Function(_) | CommandKind::Coprocess(_) => Vec::new(),
            _ => self.redirects(),
        };
        Some(Command {
            kind,
            redirects,
            span: self.span(start),
        })
    }

    fn compound(&mut self, reserved: Reserved) -> CommandKind {
        match reserved {
            Reserved::If => self.if_command(),
            Reserved::While => self.while_command(b"while"),
            Reserved::Until => self.while_command(b"until"),
            Reserved::For => self.for_command(b"for"),
            Reserved::Select => self.for_command(b"select"),
            Reserved::Case => self.case_command(),
            Reserved::Function => self.function_keyword(),
            Reserved::Coproc => self.coprocess(),
            Reserved::OpenTest => self.test_command(),
            Reserved::OpenBrace | Reserved::Closing => {
                self.eat(b'{');
                let script = self.script();
                self.expect_word(b"}", "{ … }");
                CommandKind::Group(script)
            }
        }
    }

    fn expect_word(&mut self, word: &'static [u8], construct: &'static str) {
        self.skip_blanks();
        if !self.eat_word(word) {
            self.cut_off(construct);
        }
    }

    /// The word that closes a compound command is missing: at the very end of the source
    /// nothing was left unread.
    pub fn cut_off(&mut self, construct: &'static str) {
        self.fail(if self.at_end() {
            Reason::Unfinished(construct)
        } else {
            Reason::Unterminated(construct)
        });
    }

    /// `((…))` if it can be arithmetic, as bash decides it; a subshell otherwise.
    fn parenthesis(&mut self) -> CommandKind {
        let start = self.pos;
        let double = self.peek_ahead(1) == Some(b'(');
        if double {
            let checkpoint = self.checkpoint();
            self.eat_all(b"((");
            if let Some(arithmetic) = self.arithmetic() {
                return CommandKind::Arithmetic(arithmetic);
            }
            self.restore(checkpoint);
        }
        self.eat(b'(');
        let script = self.script();
        self.skip_blanks();
        if !self.eat(b')') {
            self.cut_off("( … )");
        }
        if double {
            self.check_reread(start);
        }
        CommandKind::Subshell(script)
    }

    fn if_command(&mut self) -> CommandKind {
        let mut branches = Vec::new();
        self.eat_word(b"if");
        loop {
            let condition = self.script();
            self.expect_word(b"then", "if … fi");
            branches.push((condition, self.script()));
            self.skip_blanks();
            if !self.eat_word(b"elif") {
                break;
            }
        }
        let otherwise = self.eat_word(b"else").then(|| self.script());
        self.expect_word(b"fi", "if … fi");
        CommandKind::If(If {
            branches,
            otherwise,
        })
    }

    fn while_command(&mut self, keyword: &[u8]) -> CommandKind {
        self.eat_word(keyword);
        let condition = self.script();
        let body = self.loop_body();
        CommandKind::While(While { condition, body })
    }

    /// `do … done`, or `{ … }`, which `for` also takes.
    fn loop_body(&mut self) -> Script {
        self.skip_blanks();
        let close: &[u8] = if self.eat_word(b"{") { b"}" } else { b"done" };
        if close == b"done" && !self.eat_word(b"do") {
            self.fail(Reason::Syntax("do is missing"));
        }
        let body = self.script();
        self.skip_blanks();
        if !self.eat_word(close) {
            self.cut_off("loop");
        }
        body
    }

    fn for_command(&mut self, keyword: &[u8]) -> CommandKind {
        self.eat_word(keyword);
        self.skip_blanks();
        if self.eat_all(b"((") {
            return self.arithmetic_for();
        }
        let variable = self.word(Mode::Word).literal().unwrap_or_default();
        if variable.is_empty() {
            self.fail(Reason::Syntax("the name is missing after for"));
        }
        self.skip_newlines();
        let mut words = None;
        if self.eat_word(b"in") {
            let mut list = Vec::new();
            loop {
                self.skip_blanks();
                if self
                    .peek()
                    .is_none_or(|b| super::reserved::ends_word(b) && !self.at_process())
                {
                    break;
                }
                list.push(self.word(Mode::Word));
            }
            words = Some(list);
        }
        self.skip_blanks();
        if !self.at_arm_end() {
            self.eat(b';');
        }
        self.skip_newlines();
        let body = self.loop_body();
        CommandKind::For(For {
            variable,
            words,
            body,
        })
    }

    fn arithmetic_for(&mut self) -> CommandKind {
        let Some(header) = self.arithmetic_inside() else {
            self.fail(Reason::Unterminated("for (("));
            return CommandKind::Simple(Simple::default());
        };
        self.skip_blanks();
        self.eat(b';');
        self.skip_newlines();
        let body = self.loop_body();
        CommandKind::ArithmeticFor(Box::new(ArithmeticFor { header, body }))
    }

    fn case_command(&mut self) -> CommandKind {
        self.eat_word(b"case");
        self.skip_newlines();
        let subject = self.word(Mode::Word);
        self.skip_newlines();
        if subject.parts.is_empty() || !self.eat_word(b"in") {
            self.fail(Reason::Syntax("in is missing after case"));
        }
        let mut arms = Vec::new();
        loop {
            self.skip_newlines();
            if self.eat_word(b"esac") {
                break;
            }
            if self.at_end() {
                self.fail(Reason::Unterminated("case … esac"));
                break;
            }
            arms.push(self.arm());
        }
        CommandKind::Case(Case { subject, arms })
    }

    fn arm(&mut self) -> Arm {
        self.eat(b'(');
        let mut patterns = Vec::new();
        loop {
            self.skip_blanks();
            let pattern = self.word(Mode::Word);
            if pattern.parts.is_empty() {
                self.fail(Reason::Syntax("a pattern is missing in case"));
            }
            patterns.push(pattern);
            self.skip_blanks();
            if !self.eat(b'|') {
                break;
            }
        }
        self.expect(b')', Reason::Syntax(") is missing after a pattern"));
        let body = self.script();
        self.skip_blanks();
        let ending = if self.eat_all(b";;&") {
            ArmEnding::TestNext
        } else if self.eat_all(b";;") {
            ArmEnding::Done
        } else if self.eat_all(b";&") {
            ArmEnding::FallThrough
        } else {
            if !self.at_word(b"esac") {
                self.fail(Reason::Unterminated("case … esac"));
            }
            ArmEnding::Done
        };
        Arm {
            patterns,
            body,
            ending,
        }
    }

    fn function_keyword(&mut self) -> CommandKind {
        self.eat_word(b"function");
        self.skip_blanks();
        let name = self.word(Mode::Word);
        self.skip_blanks();
        if self.peek() == Some(b'(') {
            let checkpoint = self.checkpoint();
            self.eat(b'(');
            self.skip_blanks();
            if !self.eat(b')') {
                // `function f ( … )`: the body is a subshell.
                self.restore(checkpoint);
            }
        }
        self.function(name)
    }

    /// The body of a function whose name, and `()`, have been read.
    pub fn function(&mut self, name: Word) -> CommandKind {
        self.skip_newlines();
        let Some(body) = self.deeper(Self::command) else {
            self.fail(Reason::Syntax("the function's body is missing"));
            return CommandKind::Simple(Simple {
                assignments: Vec::new(),
                words: vec![name],
            });
        };
        // The name is not expanded: quotes count, `$` does not.
        let name = name.literal().unwrap_or_default();
        CommandKind::Function(Function {
            name,
            body: Box::new(body),
        })
    }

    fn coprocess(&mut self) -> CommandKind {
        self.eat_word(b"coproc");
        self.skip_blanks();
        let mut name = None;
        if !self.at_compound() {
            let checkpoint = self.checkpoint();
            let word = self.word(Mode::Word);
            self.skip_blanks();
            match word.plain() {
                Some(text) if self.at_compound() => name = Some(text.to_vec()),
                _ => self.restore(checkpoint),
            }
        }
        match self.deeper(Self::command) {
            Some(body) => CommandKind::Coprocess(Coprocess {
                name,
                body: Box::new(body),
            }),
            None => {
                self.fail(Reason::Syntax("a command is missing after coproc"));
                CommandKind::Simple(Simple::default())
            }
        }
    }

    fn at_compound(&mut self) -> bool {
        self.peek() == Some(b'(')
            || self
                .reserved()
                .is_some_and(|reserved| reserved != Reserved::Closing)
    }

    fn test_command(&mut self) -> CommandKind {
        self.eat_word(b"[[");
        let (mut words, mut breaks): (Vec<Word>, Vec<usize>) = Default::default();
        loop {
            let before = self.pos;
            self.skip_newlines();
            let blank = self.source.get(before..self.pos).unwrap_or_default();
            if blank.contains(&b'\n') {
                breaks.push(words.len());
            }
            if self.eat_word(b"]]") {
                break;
            }
            let start = self.pos;
            let mode = match words.last().and_then(Word::plain) {
                Some(b"=~") => Mode::Regex,
                _ => Mode::Pattern,
            };
            let operator: Option<&[u8]> = if mode == Mode::Regex || self.at_process() {
                None
            } else {
                [&b"&&"[..], b"||", b"(", b")", b"<", b">"]
                    .into_iter()
                    .find(|operator| self.eat_all(operator))
            };
            if let Some(operator) = operator {
                let span = self.span(start);
                let kind = PartKind::Plain(operator.to_vec());
                let parts = vec![Part { kind, span }];
                words.push(Word { parts, span });
                continue;
            }
            let word = self.word(mode);
            if word.parts.is_empty() {
                self.fail(Reason::Unterminated("[[ … ]]"));
                break;
            }
            words.push(word);
        }
        CommandKind::Test(Test { words, breaks })
    }
}
