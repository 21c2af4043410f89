//! The paths that a plan may take, and what their keys hold.

use keyloom_key::{Component, Cut, Each, Kind, Order};

use super::term::Term;
use crate::catalog::{Collection, Index, Path, PathState, Source};

/// Which path of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PathRef {
    /// The document keys.
    Key,
    /// A unique claim, by its place.
    Unique(usize),
    /// An index, by its place.
    Index(usize),
}

/// A path that could serve a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) at: PathRef,
    pub(crate) path: &'a Path,
    /// Set for an index.
    pub(crate) index: Option<&'a Index>,
}

impl<'a> Candidate<'a> {
    /// The path behind a reference.
    pub(crate) fn of(collection: &'a Collection, at: PathRef) -> Option<Candidate<'a>> {
        let (path, index) = match at {
            PathRef::Key => (&collection.key, None),
            PathRef::Unique(place) => (&collection.uniques.get(place)?.path, None),
            PathRef::Index(place) => {
                let index = collection.indexes.get(place)?;
                (&index.path, Some(index))
            }
        };
        Some(Candidate { at, path, index })
    }

    /// An index that is not part of the collection, as if it stood behind all others.
    pub(crate) fn imagined(collection: &Collection, place: usize, index: &'a Index) -> Self {
        let at = PathRef::Index(collection.indexes.len() + place);
        Candidate { at, path: &index.path, index: Some(index) }
    }

    /// `key`, `unique:name` or `index:name`.
    pub(crate) fn label(&self) -> String {
        match self.at {
            PathRef::Key => "key".to_owned(),
            PathRef::Unique(_) => format!("unique:{}", self.path.name),
            PathRef::Index(_) => format!("index:{}", self.path.name),
        }
    }

    pub(crate) fn is_document_key(&self) -> bool {
        self.at == PathRef::Key
    }

    pub(crate) fn is_claim(&self) -> bool {
        matches!(self.at, PathRef::Unique(_))
    }

    /// Components with what fills them.
    pub(crate) fn components(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a Component, Source)> + use<'a> {
        self.path.template.components().iter().zip(self.path.sources.iter().copied())
    }

    /// A component with what fills it.
    pub(crate) fn component(&self, place: usize) -> Option<(&'a Component, Source)> {
        self.components().nth(place)
    }

    /// The components from a place on, as far as they decide order and equality: where they are
    /// the same for two keys of a merge, the tails of one document are equal, too.
    pub(crate) fn tail_shape(
        &self,
        place: usize,
    ) -> impl Iterator<Item = (Source, Order, Cut)> + use<'a> {
        let tail = self.components().skip(place);
        tail.map(|(component, source)| (source, component.order, component.cut))
    }

    /// Where the whole value of a source stands, if it does.
    pub(crate) fn place_of(&self, source: Source) -> Option<usize> {
        self.components().position(|(component, filled)| filled == source && is_whole(component))
    }

    /// Whether the value of a source can be had from the keys of this path alone, as it is in the
    /// data: names are folded in keys, so those are not.
    pub(crate) fn holds(&self, collection: &Collection, source: Source) -> bool {
        let as_in_data = collection.source_kind(source).is_some_and(|kind| *kind != Kind::Name);
        let in_key = self.place_of(source).is_some()
            || (self.is_claim() && collection.key.sources.contains(&source));
        let included = match (self.index, source) {
            (Some(index), Source::Field(field)) => index.include.contains(&field),
            _ => false,
        };
        included || (in_key && as_in_data)
    }

    /// Whether all that is selected can be had without the documents.
    pub(crate) fn covers(&self, collection: &Collection, select: Option<&[Source]>) -> bool {
        let Some(select) = select else { return false };
        !self.is_document_key() && select.iter().all(|source| self.holds(collection, *source))
    }

    /// Whether every term is about something that the path holds, or that its condition is about:
    /// any other would be left over.
    pub(crate) fn concerns_all(&self, branch: &[(Source, Term)]) -> bool {
        let conditions = self.index.map_or(&[][..], |index| &index.when);
        branch.iter().all(|(source, _)| {
            self.path.sources.contains(source)
                || conditions.iter().any(|(field, _)| *source == Source::Field(*field))
        })
    }

    /// Whether the condition of the index follows from the terms; and for each term whether the
    /// condition already sees to it.
    pub(crate) fn admits(&self, branch: &[(Source, Term)]) -> Option<Vec<bool>> {
        let mut seen_to = vec![false; branch.len()];
        let Some(index) = self.index else { return Some(seen_to) };
        for (field, allowed) in &index.when {
            let place = branch.iter().position(|(source, _)| *source == Source::Field(*field))?;
            let (_, Term::OneOf(values)) = branch.get(place)? else { return None };
            if !values.iter().all(|value| allowed.contains(value)) {
                return None;
            }
            if allowed.iter().all(|value| values.contains(value)) {
                *seen_to.get_mut(place)? = true;
            }
        }
        Some(seen_to)
    }
}

/// All paths of a collection that can be read: the document key, then claims, then indexes, each in
/// the order of their declaration.
///
/// The claim behind `one_per_owner` is not among them: it binds in some modes only, and then holds
/// no document in the others.
pub(crate) fn candidates(collection: &Collection) -> Vec<Candidate<'_>> {
    let mut ready = Vec::with_capacity(1 + collection.uniques.len() + collection.indexes.len());
    ready.extend(all_paths(collection).filter(|path| path.path.state == PathState::Ready));
    ready
}

/// The indexes that are not complete yet.
pub(crate) fn building(collection: &Collection) -> Vec<Candidate<'_>> {
    all_paths(collection).filter(|candidate| candidate.path.state != PathState::Ready).collect()
}

/// Whether a component holds the whole value of its field, and one key per document.
pub(crate) fn is_whole(component: &Component) -> bool {
    component.cut == Cut::Whole && component.each == Each::One
}

fn all_paths(collection: &Collection) -> impl Iterator<Item = Candidate<'_>> {
    let uniques = collection.uniques.iter().enumerate();
    let uniques = uniques
        .filter(|(_, unique)| unique.one_per_owner.is_none())
        .map(|(place, _)| PathRef::Unique(place));
    let indexes = (0..collection.indexes.len()).map(PathRef::Index);
    std::iter::once(PathRef::Key)
        .chain(uniques)
        .chain(indexes)
        .filter_map(|at| Candidate::of(collection, at))
}
