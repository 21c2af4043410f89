//! What can go wrong with templates and keys, sorted by what the caller would do about it.

use std::fmt;

use thiserror::Error;

use crate::excerpt::excerpt;
use crate::limits::{
    PREFIX_CHARACTERS_MAX, SHARDS_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_COMPONENTS_MAX,
};
use crate::value::{Kind, Value};

/// Why a template does not compile, and where.
///
/// `Display` shows the template with a caret under the character:
///
/// ```text
/// invalid key template: {b} follows {a} (text), whose end cannot be told
///   x_{a}{b}
///        ^ put a literal between them
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

/// What is wrong with a template; [`advice`](Self::advice) says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateProblem {
    /// It is larger than any that compiles.
    #[error("it has more than {TEMPLATE_BYTES_MAX} bytes")]
    TooLong,
    /// All its keys would be the same.
    #[error("it has no component")]
    NoComponent,
    /// It has more components than a key takes.
    #[error("it has more than {TEMPLATE_COMPONENTS_MAX} components")]
    TooManyComponents,
    /// A literal has a character that it cannot have.
    #[error("{character:?} cannot be part of a literal")]
    LiteralCharacter {
        /// The character.
        character: char,
    },
    /// A component does not end.
    #[error("the component that begins here has no end")]
    Unclosed,
    /// A component does not begin with the name of a field.
    #[error("a field name is expected here")]
    FieldName,
    /// Nobody knows the field.
    #[error("there is no field {field:?} that can be in a key")]
    UnknownField {
        /// The name that is not known.
        field: String,
    },
    /// Nobody knows the modifier.
    #[error("{word:?} is not a modifier")]
    UnknownModifier {
        /// The word that is not known.
        word: String,
    },
    /// A modifier is there already.
    #[error("{word} is said twice")]
    RepeatedModifier {
        /// The modifier.
        word: &'static str,
    },
    /// A modifier has no number, or one out of range.
    #[error("{word} needs a number from {min} to {max}")]
    ModifierNumber {
        /// The modifier.
        word: &'static str,
        /// The least number.
        min: u16,
        /// The greatest number.
        max: u16,
    },
    /// Values of this kind cannot be cut.
    #[error("prefix cuts text and id, but {field} is of kind {kind}")]
    PrefixOfKind {
        /// The field.
        field: String,
        /// Its kind.
        kind: Kind,
    },
    /// A bucket cannot be modified.
    #[error("shard stands alone")]
    ShardNotAlone,
    /// Two arrays would give a document the product of their lengths in keys.
    #[error("a second [] would multiply the keys of a document")]
    SecondElement,
    /// A word of an enum has a character that it cannot have.
    #[error("the word {word:?} of the enum {field} cannot stand in a key")]
    EnumWord {
        /// The field.
        field: String,
        /// The word.
        word: String,
    },
    /// No value could ever stand in the key.
    #[error("the enum {field} has no words")]
    EnumEmpty {
        /// The field.
        field: String,
    },
    /// Two components follow each other, and the end of the first cannot be told.
    #[error("{{{next}}} follows {{{field}}} ({kind}), whose end cannot be told")]
    RunsOn {
        /// The component whose end cannot be told.
        field: String,
        /// Its kind.
        kind: Kind,
        /// The component that follows it.
        next: String,
    },
    /// A literal follows a component, and its first character could be part of the component.
    #[error("{character:?} can occur in {{{field}}} ({kind}), whose end cannot be told")]
    Separator {
        /// The component whose end cannot be told.
        field: String,
        /// Its kind.
        kind: Kind,
        /// The first character of the literal that follows.
        character: char,
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
    #[error("{field} needs a value of kind {expected}, not {:?}", excerpt(&found.to_string()))]
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
    #[error("expected {expected} at character {position} of a key of {template}")]
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
        let Self { template, position, problem } = self;
        let advice = problem.advice();
        if template.is_empty() {
            return write!(formatter, "invalid key template: {problem}: {advice}");
        }
        // One line and one column for each character, whatever was sent: the caret has to fit.
        let shown: String = template
            .chars()
            .take(TEMPLATE_BYTES_MAX)
            .map(|character| if character.is_control() { '\u{FFFD}' } else { character })
            .collect();
        writeln!(formatter, "invalid key template: {problem}")?;
        writeln!(formatter, "  {shown}")?;
        write!(formatter, "  {:position$}^ {advice}", "")
    }
}

impl TemplateProblem {
    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::TooLong => "shorten its literals",
            Self::NoComponent => "add a field in braces, such as {id}",
            Self::TooManyComponents => "take some out",
            Self::LiteralCharacter { .. } => "use printable ASCII without { } and %",
            Self::Unclosed => "add a closing brace",
            Self::FieldName => "use letters, digits and _, and no digit at the beginning",
            Self::UnknownField { .. } => {
                "declare it with a type that keys take, or correct the name"
            }
            Self::UnknownModifier { .. } => "use desc, prefix N or shard N, one space between",
            Self::RepeatedModifier { .. } | Self::ShardNotAlone => "take the other modifier out",
            Self::ModifierNumber { .. } => "write one, without zeros before it",
            Self::PrefixOfKind { .. } => "take the modifier out",
            Self::SecondElement => "use one array in a template",
            Self::EnumWord { .. } => "use words of A-Z a-z 0-9 _ . -",
            Self::EnumEmpty { .. } => "declare at least one",
            Self::RunsOn { .. } => "put a literal between them",
            Self::Separator { kind: Kind::Id | Kind::Text, .. } => {
                "begin the literal with punctuation, such as : or #"
            }
            Self::Separator { kind: Kind::Name, .. } => {
                "begin the literal with another character than a letter, a digit or -"
            }
            Self::Separator { kind: Kind::Millis | Kind::I64, .. } => {
                "begin the literal with another character than a digit or -"
            }
            Self::Separator { kind: Kind::Bool, .. } => {
                "begin the literal with another character than a letter"
            }
            Self::Separator { kind: Kind::Enum(_), .. } => {
                "begin the literal with a character that is in none of its words"
            }
            Self::Separator { kind: Kind::U64 | Kind::Ulid | Kind::Uuid, .. } => {
                "begin the literal with another character than a digit"
            }
        }
    }

    pub(super) const fn prefix_number() -> Self {
        Self::ModifierNumber { word: "prefix", min: 1, max: PREFIX_CHARACTERS_MAX }
    }

    pub(super) const fn shard_number() -> Self {
        Self::ModifierNumber { word: "shard", min: 2, max: SHARDS_MAX }
    }
}
