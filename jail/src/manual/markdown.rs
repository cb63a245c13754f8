//! A man page from one of our own documents: headings, paragraphs, lists, tables, code.

use std::io::{self, Write};

use super::page::literal;

/// Writes the page. The document's own title line is left out.
pub fn page(
    name: &str,
    section: &str,
    about: &str,
    text: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let shown = literal(name);
    writeln!(out, ".TH {shown} {section} \"\" \"sjail {version}\" sjail")?;
    writeln!(out, ".SH NAME\n{shown} \\- {}", literal(about))?;
    writeln!(out, ".SH DESCRIPTION")?;
    let mut code = false;
    let mut fresh = true;
    let mut table = 0;
    for line in text.lines() {
        if line.starts_with("```") {
            code = !code;
            writeln!(out, "{}", if code { ".PP\n.RS 4\n.nf" } else { ".fi\n.RE" })?;
        } else if code {
            writeln!(out, "{}", literal(line))?;
        } else if let Some(heading) = line.strip_prefix("## ") {
            writeln!(out, ".SH {}", inline(&heading.to_uppercase()))?;
        } else if let Some(heading) = line.strip_prefix("### ") {
            writeln!(out, ".SS {}", inline(heading))?;
        } else if line.starts_with("# ") {
            // The title is the page's own.
        } else if let Some(item) = line.strip_prefix("- ") {
            writeln!(out, ".IP \\(bu 2\n{}", inline(item))?;
        } else if line.starts_with('|') {
            // Its first two lines are the header and the ruler.
            table += 1;
            if table > 2 {
                row(line, out)?;
            }
        } else if line.trim().is_empty() {
            fresh = true;
            table = 0;
            continue;
        } else {
            if fresh {
                writeln!(out, ".PP")?;
            }
            writeln!(out, "{}", inline(line))?;
        }
        fresh = false;
        if !line.starts_with('|') {
            table = 0;
        }
    }
    Ok(())
}

/// A row of a table: what its first cell names, then the rest. Of three cells the middle
/// one is a default.
fn row(line: &str, out: &mut impl Write) -> io::Result<()> {
    let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").collect();
    let text = match cells.as_slice() {
        [_, default, meaning] if cells[0].contains('.') => {
            format!("{} (default: {})", meaning.trim(), default.trim())
        }
        [_, rest @ ..] => rest
            .iter()
            .map(|cell| cell.trim())
            .collect::<Vec<_>>()
            .join("; "),
        [] => String::new(),
    };
    let name = cells.first().map_or("", |cell| cell.trim());
    writeln!(out, ".TP\n{}\n{}", inline(name), inline(&text))
}

/// Code in bold, emphasis in italics, of links their text.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            out.push_str(&format!("\\fB{}\\fR", literal(part).replace("\\|", "|")));
        } else {
            for (index, part) in unlinked(part).split("**").enumerate() {
                match index % 2 {
                    1 => out.push_str(&format!("\\fI{}\\fR", literal(part))),
                    _ => out.push_str(&literal(part)),
                }
            }
        }
    }
    out
}

fn unlinked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((label, (_, behind))) = after
            .split_once("](")
            .and_then(|(label, target)| Some((label, target.split_once(')')?)))
        else {
            break;
        };
        out.push_str(before);
        out.push_str(label);
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_document_becomes_a_page() {
        let text = "# T\n\nOne `a-b` and\n[two](x.md).\n\n## More\n\n| key | default | what |\n|---|---|---|\n| `x.y` | 1 | **it** |\n\n```toml\n.x = 'y'\n```\n";
        let mut out = Vec::new();
        page("sjail-x", "5", "about", text, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let body = out.split_once(".SH DESCRIPTION\n").unwrap().1;
        assert_eq!(
            body,
            ".PP\nOne \\fBa\\-b\\fR and\ntwo.\n.SH MORE\n.TP\n\\fBx.y\\fR\n\\fIit\\fR (default: 1)\n.PP\n.RS 4\n.nf\n\\&.x = \\(aqy\\(aq\n.fi\n.RE\n"
        );
    }
}
