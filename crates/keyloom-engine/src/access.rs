//! Who may read and write what.
//!
//! ```text
//! rule      anonymous   user    admin   local
//! public    all         all     all     all
//! private   nothing     own     own     all
//! managed   nothing     own     all     all
//! admin     nothing     nothing all     all
//! ```
//!
//! A1: What a caller may not read does not exist for him: it is not found, left out, not counted,
//!     and a write that names it finds nothing there. What cannot be hidden: that a key or a unique
//!     value is taken, and that a value can be referred to.
//! A2: Rules are kept here and not by those who ask, so that every door and the embedded library
//!     have the same.

use std::borrow::Cow;

use keyloom_key::Value;

use crate::catalog::{Collection, FieldKind, Source};
use crate::document::{Facts, FieldValue, HeadRecord, Record};
use crate::engine::Actor;
use crate::error::Error;
use crate::limits::OWNER_BYTES_MAX;
use crate::query::Term;
use crate::schema::AccessRule;

/// Who may do what with the documents of a collection, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) read: AccessRule,
    pub(crate) write: AccessRule,
    /// What tells whose a document is.
    pub(crate) subjects: Vec<Source>,
}

impl Access {
    /// Whether it matters for readers whose a document is.
    pub(crate) fn is_personal(&self) -> bool {
        matches!(self.read, AccessRule::Private | AccessRule::Managed)
    }
}

/// How far a rule lets a caller reach.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reach {
    /// All documents.
    All,
    /// Documents that satisfy at least one of these: they are his.
    Own(Vec<(Source, Term)>),
    /// None.
    Nothing,
}

impl Collection {
    /// What a caller may read.
    pub(crate) fn readable(&self, actor: &Actor) -> Reach {
        self.reach(self.access.read, actor)
    }

    /// What a caller may write.
    pub(crate) fn writable(&self, actor: &Actor) -> Reach {
        self.reach(self.access.write, actor)
    }

    /// Adds the subjects whose document it is, as text.
    pub(crate) fn subjects_of<'a>(
        &self,
        record: &'a Record,
        owner: Option<&'a str>,
        subjects: &mut Vec<Cow<'a, str>>,
    ) {
        for source in &self.access.subjects {
            match *source {
                Source::Field(field) => match record.get(field) {
                    Some(FieldValue::Scalar(value)) => subjects.push(spelled(value)),
                    Some(FieldValue::Array(values)) => subjects.extend(values.iter().map(spelled)),
                    Some(FieldValue::Other(_)) | None => {}
                },
                Source::Owner => subjects.extend(owner.map(Cow::Borrowed)),
                Source::CreatedAt | Source::UpdatedAt => {}
            }
        }
        // No caller has a longer name.
        subjects.retain(|subject| subject.len() <= OWNER_BYTES_MAX);
    }

    /// Whether a field, or the owner, holds this subject.
    pub(crate) fn subject_term(&self, source: Source, subject: &str) -> Option<Term> {
        let value = match source {
            Source::Owner => Value::Text(subject.to_owned()),
            Source::CreatedAt | Source::UpdatedAt => return None,
            Source::Field(field) => match &self.fields.get(field)?.kind {
                FieldKind::Key(kind) => kind.parse_text(subject).ok()?,
                FieldKind::Number | FieldKind::Json => return None,
            },
        };
        Term::one_of(vec![value])
    }

    fn reach(&self, rule: AccessRule, actor: &Actor) -> Reach {
        match (rule, actor) {
            (_, Actor::Local)
            | (AccessRule::Public, _)
            | (AccessRule::Managed | AccessRule::Admin, Actor::Admin(_)) => Reach::All,
            (AccessRule::Private, Actor::Admin(subject) | Actor::User(subject))
            | (AccessRule::Managed, Actor::User(subject)) => {
                let sources = self.access.subjects.iter();
                let terms: Vec<(Source, Term)> = sources
                    .filter_map(|source| Some((*source, self.subject_term(*source, subject)?)))
                    .collect();
                if terms.is_empty() { Reach::Nothing } else { Reach::Own(terms) }
            }
            (_, Actor::Anonymous) | (AccessRule::Admin, Actor::User(_)) => Reach::Nothing,
        }
    }
}

impl Reach {
    /// What is within both: rules of one collection go by the same subjects.
    pub(crate) fn and(self, other: Reach) -> Reach {
        match (self, other) {
            (Reach::Nothing, _) | (_, Reach::Nothing) => Reach::Nothing,
            (Reach::All, other) => other,
            (own, _) => own,
        }
    }

    /// Whether a stored document is within reach.
    pub(crate) fn covers(
        &self,
        collection: &Collection,
        head: &HeadRecord<'_>,
    ) -> Result<bool, Error> {
        let Reach::Own(terms) = self else { return Ok(*self == Reach::All) };
        let by_field = terms.iter().any(|(source, _)| matches!(source, Source::Field(_)));
        let record =
            if by_field { Record::stored(collection, head.data)? } else { Record::default() };
        Ok(self.covers_record(&record, head.owner))
    }

    /// Whether a document with these values is within reach.
    pub(crate) fn covers_record(&self, record: &Record, owner: Option<&str>) -> bool {
        let Reach::Own(terms) = self else { return *self == Reach::All };
        let facts = Facts { created_at: 0, updated_at: 0, owner };
        terms.iter().any(|(source, term)| term.holds_of(*source, record, &facts))
    }

    /// Whether it reaches one of these subjects.
    pub(crate) fn covers_subjects(&self, subjects: &[String]) -> bool {
        let Reach::Own(terms) = self else { return *self == Reach::All };
        let is_his = |subject: &String| {
            let mut values = terms.iter().filter_map(|(_, term)| term.single());
            values.any(|value| value.to_string() == *subject)
        };
        subjects.iter().any(is_his)
    }
}

fn spelled(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
