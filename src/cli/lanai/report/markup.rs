//! Elements of HTML and SVG. All texts and attributes are escaped.

use crate::cli::lanai::table::printable;

/// A text for an element or a quoted attribute. Control characters are replaced.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// The text, cut to `limit` characters. An ellipsis marks a cut text.
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_string();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A coordinate with one decimal.
pub fn unit(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

/// An element with escaped text.
pub fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

/// Where a text in a picture is relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// To the right of the point.
    Start,
    /// Centered.
    Middle,
    /// To the left of the point.
    End,
}

/// A picture in SVG. It has no size of its own, so it is as wide as its container. Colors come from
/// classes, so the page's style decides them.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    body: String,
}

impl Picture {
    /// Adds a rectangle at `(x, y)` with a width and a height. `note` is shown at the pointer; an
    /// empty note is omitted.
    pub fn rectangle(&mut self, class: &str, (x, y): (f64, f64), size: (f64, f64), note: &str) {
        let (x, y, width, height) = (unit(x), unit(y), unit(size.0), unit(size.1));
        let start = format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        );
        self.body.push_str(&start);
        if note.is_empty() {
            self.body.push_str("/>");
        } else {
            let note = element("title", note);
            self.body.push_str(&format!(">{note}</rect>"));
        }
    }

    /// Adds a line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(unit);
        self.body.push_str(&format!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        ));
    }

    /// Adds a path.
    pub fn path(&mut self, class: &str, path: &str) {
        self.body
            .push_str(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    /// Adds a text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (unit(x), unit(y), escape(text));
        self.body.push_str(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// The picture with this width and height in its own units.
    pub fn finish(self, class: &str, (width, height): (f64, f64), label: &str) -> String {
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>\n",
            unit(width),
            unit(height),
            escape(label),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_users_cannot_become_markup() {
        assert_eq!(
            escape("<script>alert('1')</script> & \"x\"\u{1b}"),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot;?"
        );
        let mut picture = Picture::default();
        picture.rectangle("a", (0.0, 1.25), (2.0, 3.0), "</title><script>");
        picture.text("b", (1.0, 2.0), Anchor::End, "<b>");
        let text = picture.finish("c", (9.0, 9.0), "\"><script>");
        assert!(
            !text.contains("<script>") && !text.contains("<b>"),
            "{text}"
        );
        assert!(text.contains("y=\"1.2\" width=\"2\""), "{text}");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!([cut("abcd", 4), cut("abcde", 4)], ["abcd", "abc…"]);
    }
}
