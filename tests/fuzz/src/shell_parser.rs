//! Any bytes at all: the parser must come back, within its steps, with spans that fit and
//! a tree that folding can be let loose on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sjail_policy::shell::fold::Environment;
use sjail_policy::shell::walk::{self, Node};
use sjail_policy::shell::{CommandKind, Span, parse_arithmetic, parse_counting};

fuzz_target!(|source: &[u8]| {
    let (script, steps) = parse_counting(source);
    assert!(
        steps <= 16 * source.len() + 4096,
        "{steps} steps for {} bytes",
        source.len()
    );
    let fits = |span: Span| {
        assert!(span.start <= span.end && span.end as usize <= source.len(), "{span:?}");
    };
    let mut environment = Environment::default();
    walk::each(&script, &mut |node| match node {
        Node::Command(command) => {
            fits(command.span);
            if let CommandKind::Simple(simple) = &command.kind {
                for assignment in &simple.assignments {
                    environment.assign(assignment);
                }
                let argv = environment.argv(&simple.words);
                assert!(!argv.is_empty());
            }
        }
        Node::Redirect(redirect) => fits(redirect.span),
        Node::Word(word) => {
            fits(word.span);
            environment.value(word);
        }
        Node::Part(part) => fits(part.span),
        Node::Opaque(opaque) => fits(opaque.span),
    });
    parse_arithmetic(source);
});
