//! What can go wrong with templates and keys, sorted by what the caller would do about it.

use std::fmt;

use thiserror::Error;

use crate::limits::{
    PREFIX_CHARACTERS_MAX, SHARDS_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_COMPONENTS_MAX,
};
use crate::value::{Kind, Value};

/// Why a template does not compile, and where.
///
/// `Display` shows the template with a caret under the character:
///
/// ```text
/// invalid key template: {b} follows {a}, whose end cannot be told: put a literal between them
///   x_{a}{b}
///        ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct TemplateError {
    /// The template text.
    pub template: String,
    /// The character that is wrong, counted from 0.
    pub position: usize,
    /// What is wrong with it.
    pub problem: TemplateProblem,
}

/// What is wrong with a template, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateProblem {
    /// Shorten it.
    #[error("it has more than {TEMPLATE_BYTES_MAX} bytes: shorten its literals")]
    TooLong,
    /// Add a component.
    #[error("it has no component: add a field in braces, such as {{id}}")]
    NoComponent,
    /// Take some components out.
    #[error("it has more than {TEMPLATE_COMPONENTS_MAX} components: take some out")]
    TooManyComponents,
    /// Use another character.
    #[error("{character:?} cannot be part of a literal: use printable ASCII without {{ }} and %")]
    LiteralCharacter {
        /// The character.
        character: char,
    },
    /// Close the component.
    #[error("the component that begins here has no end: add a closing brace")]
    Unclosed,
    /// Name a field.
    #[error("a field name is expected here: letters, digits and _, not beginning with a digit")]
    FieldName,
    /// Name a field that exists.
    #[error("there is no field {field:?}: declare it, or correct the name")]
    UnknownField {
        /// The name that is not known.
        field: String,
    },
    /// Use a modifier that exists.
    #[error("{word:?} is not a modifier: use desc, prefix N or shard N, with one space between")]
    UnknownModifier {
        /// The word that is not known.
        word: String,
    },
    /// Say it once.
    #[error("{word} is said twice: take one out")]
    RepeatedModifier {
        /// The modifier.
        word: &'static str,
    },
    /// Give a number in range.
    #[error("{word} needs a number from {min} to {max}")]
    ModifierNumber {
        /// The modifier.
        word: &'static str,
        /// The least number.
        min: u16,
        /// The greatest number.
        max: u16,
    },
    /// Use `prefix` with a text or an id only.
    #[error("prefix cuts text and id, but {field} is of kind {kind}: leave it out")]
    PrefixOfKind {
        /// The field.
        field: String,
        /// Its kind.
        kind: Kind,
    },
    /// Use `shard` alone.
    #[error("shard stands alone: take out the other modifiers")]
    ShardNotAlone,
    /// Use one array only.
    #[error("a second [] would multiply the keys of a document: use one array in a template")]
    SecondElement,
    /// Correct the words of the field.
    #[error("{word:?} of the enum {field} cannot stand in a key: words need A-Z a-z 0-9 _ . -")]
    EnumWord {
        /// The field.
        field: String,
        /// The word.
        word: String,
    },
    /// Declare words for the field.
    #[error("the enum {field} has no words: declare at least one")]
    EnumEmpty {
        /// The field.
        field: String,
    },
    /// Put a literal between the two.
    #[error("{{{next}}} follows {{{field}}}, whose end cannot be told: put a literal between them")]
    RunsOn {
        /// The component whose end cannot be told.
        field: String,
        /// The component that follows it.
        next: String,
    },
    /// Begin the literal with another character.
    #[error("{character:?} can occur in {{{field}}} ({kind}), whose end cannot be told: {advice}")]
    Separator {
        /// The component whose end cannot be told.
        field: String,
        /// Its kind.
        kind: Kind,
        /// The first character of the literal that follows.
        character: char,
        /// What the literal may begin with.
        advice: &'static str,
    },
}

/// Why values do not make a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PackError {
    /// Give one value for each component.
    #[error("the template has {expected} components, {found} values were given")]
    WrongCount {
        /// How many components there are.
        expected: usize,
        /// How many values were given.
        found: usize,
    },
    /// Give a value of the right kind.
    #[error("{field} needs a value of kind {expected}, {found:?} is none")]
    WrongKind {
        /// The field of the component.
        field: String,
        /// What the component holds.
        expected: Kind,
        /// What was given.
        found: Value,
    },
    /// Ask for a prefix of a text only.
    #[error("{field} is of kind {kind} and has no prefixes: give a value or a range")]
    NotText {
        /// The field of the component.
        field: String,
        /// What the component holds.
        kind: Kind,
    },
    /// Cut the value with [`Component::value_of`](super::Component::value_of) first.
    #[error("{field} holds the first {characters} characters only: the value has more")]
    NotCut {
        /// The field of the component.
        field: String,
        /// How many characters it holds.
        characters: u16,
    },
    /// Take the NUL out of the text, or the field out of the key.
    #[error("{field} contains NUL, which cannot be part of a key")]
    ContainsNul {
        /// The field of the component.
        field: String,
    },
    /// Shorten the values.
    #[error("the packed components have {bytes} bytes, a key takes at most {max}")]
    KeyTooLong {
        /// How many bytes they have.
        bytes: usize,
        /// How many they may have.
        max: usize,
    },
}

/// Why stored bytes are not a key. The data is damaged, or it is not of this template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The key ends too early.
    #[error("the key is cut off: {wanted} bytes are needed, {found} are there")]
    Truncated {
        /// How many bytes are needed at least.
        wanted: usize,
        /// How many are there.
        found: usize,
    },
    /// No key is that long.
    #[error("the packed components have {found} bytes, a key has at most {max}")]
    TooLong {
        /// How many bytes there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// The key goes on after its last component.
    #[error("{found} bytes follow the last component")]
    TrailingBytes {
        /// How many.
        found: usize,
    },
    /// The key belongs to nothing that this release knows.
    #[error("unknown key space 0x{tag:02x}")]
    UnknownSpace {
        /// The first byte of the key.
        tag: u8,
    },
    /// An element is of another type, or is not spelled in the canonical way.
    #[error("the bytes of {field} are not a canonical element of kind {expected}")]
    Element {
        /// The field of the component.
        field: String,
        /// What the component holds.
        expected: Kind,
    },
    /// An element holds a value that the component does not take.
    #[error("a stored value does not fit its component")]
    Value(#[source] PackError),
}

/// Why a text is not a key of the template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No key is that long.
    #[error("the key has {found} bytes, the text of a key has at most {max}")]
    TooLong {
        /// How many bytes it has.
        found: usize,
        /// How many it may have.
        max: usize,
    },
    /// Correct the key at this character.
    #[error("expected {expected} at character {position} of the key, whose template is {template}")]
    Mismatch {
        /// Where the text differs, counted from 0.
        position: usize,
        /// What should stand there.
        expected: String,
        /// The template.
        template: String,
    },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line and one column for each character, whatever was sent: the caret has to fit.
        let shown: String = self
            .template
            .chars()
            .take(TEMPLATE_BYTES_MAX)
            .map(|character| if character.is_control() { '\u{FFFD}' } else { character })
            .collect();
        writeln!(formatter, "invalid key template: {}", self.problem)?;
        writeln!(formatter, "  {shown}")?;
        write!(formatter, "  {:>width$}", '^', width = self.position + 1)
    }
}

impl TemplateProblem {
    pub(super) const fn prefix_number() -> Self {
        Self::ModifierNumber { word: "prefix", min: 1, max: PREFIX_CHARACTERS_MAX }
    }

    pub(super) const fn shard_number() -> Self {
        Self::ModifierNumber { word: "shard", min: 2, max: SHARDS_MAX }
    }
}
