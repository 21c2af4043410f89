//! Lists of objects and of entries.
//!
//! L1: A list is in byte order of identities and keys, complete, and has each item once, whatever
//!     the layout that items lie in.
//! L2: A page of objects reads one key for each object: behind the metadata it seeks the next one.
//! L3: A cursor holds a position, not an object: it survives that what it stands on is gone.

use keyloom_key::limits::STRING_ID_LIMIT_MAX;
use keyloom_key::{EntryKey, Head, ObjectId, ObjectKey, ObjectRecord, Space, StoredKey, StringId};
use keyloom_store::{Direction, Entry, KeyRange, ScanOptions, Snapshot};
use siphasher::sip128::SipHasher24;

use super::legacy::LegacyList;
use super::read::State;
use super::record::{LegacyObject, Metadata};
use super::{ObjectAt, Val};
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{HIDDEN_OBJECTS_MAX, LARGE_VALUES_PAGE, PAGE_BYTES_MAX};
use crate::query::{check_limit, read_list_cursor, write_list_cursor};

/// Which objects are listed.
#[derive(Clone, Copy, Debug)]
pub struct ObjectList<'a> {
    /// The name of their class.
    pub class: &'a str,
    /// Their partition.
    pub partition: u32,
    /// How their identities begin; for [`ObjectOrder::Numeric`] it is empty.
    pub prefix: &'a str,
    /// Their order.
    pub order: ObjectOrder,
    /// The most objects of the page.
    pub limit: usize,
    /// The cursor of the page before.
    pub after: Option<&'a str>,
}

/// The order of a list of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectOrder {
    /// By the bytes of the spelling: `10` comes before `9`.
    Bytes,
    /// Numeric identities by their number; those that are texts are left out.
    Numeric,
}

/// Some objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPage {
    /// The objects.
    pub items: Vec<ObjectItem>,
    /// Where the next page begins; `None` at the end. A page may be short, and yet not the last.
    pub next: Option<String>,
}

/// What a list tells of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectItem {
    /// Its identity.
    pub id: ObjectId,
    /// Its version.
    pub version: u64,
    /// How many entries it has.
    pub entries: u64,
}

/// Which entries of an object are listed.
#[derive(Clone, Copy, Debug)]
pub struct EntryList<'a> {
    /// How their keys begin. Numeric keys are listed without a prefix only.
    pub prefix: &'a str,
    /// The most entries of the page.
    pub limit: usize,
    /// The cursor of the page before.
    pub after: Option<&'a str>,
}

/// Some entries of an object: numeric keys by their number, then string keys by their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPage {
    /// The version of the object.
    pub version: u64,
    /// The entries.
    pub items: Vec<(EntryKey, Val)>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

impl Engine {
    /// Objects of a partition.
    pub async fn list_objects(&self, list: ObjectList<'_>) -> Result<ObjectPage, Error> {
        check_limit(Some(list.limit))?;
        let catalog = self.catalog();
        let class = catalog.class(list.class)?;
        let partition = class.partition(list.partition).map_err(Error::invalid)?;
        let prefix = normal_prefix(list.prefix)?;
        let secret = &catalog.record.secret;
        let head = Head { space: Space::Object, collection: class.id, template: partition };
        let print = fingerprint(&[&[list.order as u8], &head_bytes(head), prefix.as_bytes()]);
        let after = list.after.map(|text| read_list_cursor(secret, &print, text)).transpose()?;
        let snapshot = self.store.snapshot().await?;
        let run = ListRun { snapshot: &*snapshot, class, partition, limit: list.limit };
        let shown = if catalog.record.rollout.write_only { Shown::Numeric } else { Shown::All };
        let is_digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let (items, last) = match list.order {
            // All that begins so is hidden.
            ObjectOrder::Bytes if shown == Shown::Numeric && !is_digits => (Vec::new(), None),
            ObjectOrder::Bytes => run.by_bytes(&prefix, after, shown).await?,
            ObjectOrder::Numeric if !prefix.is_empty() => {
                return Err(Error::invalid("a list in numeric order takes no prefix"));
            }
            ObjectOrder::Numeric => run.by_number(after).await?,
        };
        let cursor =
            |last: Vec<u8>| write_list_cursor(secret, &print, &[head_bytes(head), last].concat());
        Ok(ObjectPage { items, next: last.map(cursor) })
    }

    /// Entries of an object; `None` if there is no such object.
    pub async fn list_entries(
        &self,
        at: ObjectAt<'_>,
        list: EntryList<'_>,
    ) -> Result<Option<EntryPage>, Error> {
        check_limit(Some(list.limit))?;
        let (object, _) = self.object_keys(at)?;
        let prefix = normal_prefix(list.prefix)?;
        let (from, to) =
            if prefix.is_empty() { object.entries() } else { object.string_entries(&prefix) };
        let secret = self.catalog().record.secret;
        let print = fingerprint(&[b"entries", &from, &to]);
        let after = list.after.map(|text| read_list_cursor(&secret, &print, text)).transpose()?;
        let start = match after {
            None => from,
            Some(after) => [from.get(..Head::BYTES).unwrap_or_default(), &after, &[0]].concat(),
        };
        let range = KeyRange { from: start, to };
        let snapshot = self.store.snapshot().await?;
        let metadata = snapshot.get(&object.metadata()).await?;
        let metadata = metadata.map(|stored| Metadata::decode(&stored.value)).transpose()?;
        let (version, mut items, is_cut) = match metadata {
            Some(Metadata { version, has_length_entries: false, .. }) => {
                let (items, is_cut) = scan_entries(&*snapshot, &range, list.limit).await?;
                (version, items, is_cut)
            }
            _ => {
                let state = State::whole(&*snapshot, &object).await?;
                let Some(metadata) = state.current().copied() else { return Ok(None) };
                let entries = state.entries.into_iter().map(|entry| (entry.key, entry.val));
                let inside = entries.filter(|(key, _)| range.contains(&object.entry(key)));
                (metadata.version, inside.collect(), false)
            }
        };
        let is_cut = is_cut || items.len() > list.limit;
        items.truncate(list.limit);
        let last = items.last().filter(|_| is_cut);
        let next = last.map(|(key, _)| write_list_cursor(&secret, &print, &object.entry(key)));
        Ok(Some(EntryPage { version, items, next }))
    }
}

/// The items of a page, and the position of its cursor behind the head, unless it is the last page.
type Listed = (Vec<ObjectItem>, Option<Vec<u8>>);

/// Which objects a list shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    /// Those with string identities are hidden.
    Numeric,
}

/// A list under way.
struct ListRun<'a> {
    snapshot: &'a dyn Snapshot,
    class: &'a Class,
    partition: u16,
    limit: usize,
}

impl ListRun<'_> {
    async fn by_bytes(
        &self,
        prefix: &str,
        after: Option<Vec<u8>>,
        shown: Shown,
    ) -> Result<Listed, Error> {
        let head = self.head(Space::Object);
        let mut range = match prefix {
            // Numbers begin with a digit, and few texts do.
            "" if shown == Shown::Numeric => {
                KeyRange { from: with(head, b"0"), to: with(head, b":") }
            }
            // Behind the directory, whose keys begin with a NUL.
            "" => KeyRange { from: with(head, &[1]), to: head.whole().1 },
            // No byte of UTF-8 is FF.
            prefix => KeyRange {
                from: with(head, prefix.as_bytes()),
                to: with(head, &[prefix.as_bytes(), &[0xFF]].concat()),
            },
        };
        if let Some(after) = &after {
            range.from = with(head, &[after, &[1][..]].concat());
        }
        let mut legacy = LegacyList::open(
            self.snapshot,
            self.head(Space::LegacyObject),
            prefix,
            after.as_deref(),
        )
        .await?;
        let mut next = self.next_object(&mut range).await?;
        let (mut items, mut hidden) = (Vec::new(), 0);
        loop {
            let old = legacy.peek();
            let item = match (&next, old) {
                (None, None) => return Ok((items, None)),
                (Some(item), old) if old.is_none_or(|old| item.id < ObjectId::Numeric(old)) => {
                    let found = self.next_object(&mut range).await?;
                    std::mem::replace(&mut next, found)
                }
                _ => legacy.next().await?.map(|(number, object)| old_item(number, &object)),
            };
            let Some(item) = item else { continue };
            let position = item.id.to_string().into_bytes();
            if shown == Shown::All || matches!(item.id, ObjectId::Numeric(_)) {
                items.push(item);
            } else {
                hidden += 1;
            }
            let is_last = next.is_none() && legacy.peek().is_none();
            if (items.len() == self.limit || hidden == HIDDEN_OBJECTS_MAX) && !is_last {
                return Ok((items, Some(position)));
            }
        }
    }

    /// The first object of the range, which then begins behind it (L2).
    async fn next_object(&self, range: &mut KeyRange) -> Result<Option<ObjectItem>, Error> {
        let options = ScanOptions { direction: Direction::Forward, limit: 1 };
        let found = self.snapshot.scan(range, options).await?.next(1).await?;
        let Some(Entry { key, stored }) = found.into_iter().next() else { return Ok(None) };
        let (.., read) = StoredKey::read(&key).map_err(|e| Error::corrupt(e.to_string()))?;
        let StoredKey::Record { id, record: ObjectRecord::Metadata } = read else {
            return Err(Error::corrupt("an object has no metadata"));
        };
        range.from = ObjectKey::new(self.class.id, self.partition, &id).end();
        item(id, &stored.value).map(Some)
    }

    async fn by_number(&self, after: Option<Vec<u8>>) -> Result<Listed, Error> {
        let after = after.map(|position| {
            let number = position.as_slice().try_into().map(u64::from_be_bytes);
            number.map_err(|_| Error::invalid("this is not a cursor of this list"))
        });
        let after = after.transpose()?;
        let directory = self.numbers(Space::Object, &[0], after).await?;
        let oldest = self.numbers(Space::LegacyObject, &[], after).await?;
        let mut numbers: Vec<(u64, Option<Entry>)> =
            directory.into_iter().map(|(number, _)| (number, None)).collect();
        numbers.extend(oldest.into_iter().map(|(number, entry)| (number, Some(entry))));
        numbers.sort_unstable_by_key(|(number, _)| *number);
        let is_cut = numbers.len() > self.limit;
        numbers.truncate(self.limit);
        let last = numbers.last().map(|(number, _)| number.to_be_bytes().to_vec());
        let keys = numbers.iter().filter(|(_, old)| old.is_none()).map(|(number, _)| {
            ObjectKey::new(self.class.id, self.partition, &ObjectId::Numeric(*number)).metadata()
        });
        let mut found = self.snapshot.get_many(&keys.collect::<Vec<_>>()).await?.into_iter();
        let mut items = Vec::with_capacity(numbers.len());
        for (number, old) in numbers {
            items.push(match old {
                Some(entry) => old_item(number, &LegacyObject::decode(&entry.stored.value)?),
                None => {
                    let stored = found.next().flatten();
                    let stored = stored
                        .ok_or_else(|| Error::corrupt("the directory names an absent object"))?;
                    item(ObjectId::Numeric(number), &stored.value)?
                }
            });
        }
        Ok((items, last.filter(|_| is_cut)))
    }

    /// One more number than fits a page, from keys that end with it.
    async fn numbers(
        &self,
        space: Space,
        before: &[u8],
        after: Option<u64>,
    ) -> Result<Vec<(u64, Entry)>, Error> {
        let head = self.head(space);
        let from = match after {
            None => with(head, before),
            Some(after) => with(head, &[before, &after.to_be_bytes(), &[0]].concat()),
        };
        let to = match before {
            [] => head.whole().1,
            _ => with(head, &[1]),
        };
        let options = ScanOptions { direction: Direction::Forward, limit: self.limit + 1 };
        let mut scan = self.snapshot.scan(&KeyRange { from, to }, options).await?;
        let mut numbers = Vec::new();
        for entry in scan.next(self.limit + 1).await? {
            let (.., read) =
                StoredKey::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
            if let StoredKey::Directory(number) | StoredKey::Legacy(number) = read {
                numbers.push((number, entry));
            }
        }
        Ok(numbers)
    }

    fn head(&self, space: Space) -> Head {
        Head { space, collection: self.class.id, template: self.partition }
    }
}

/// Entries of a range, at most one more than the limit, and whether their bytes ended the page.
async fn scan_entries(
    snapshot: &dyn Snapshot,
    range: &KeyRange,
    limit: usize,
) -> Result<(Vec<(EntryKey, Val)>, bool), Error> {
    let options = ScanOptions { direction: Direction::Forward, limit: limit + 1 };
    let mut scan = snapshot.scan(range, options).await?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    loop {
        let page = scan.next(LARGE_VALUES_PAGE).await?;
        if page.is_empty() {
            return Ok((items, false));
        }
        for Entry { key, stored } in page {
            if bytes > PAGE_BYTES_MAX {
                return Ok((items, true));
            }
            bytes += stored.value.len();
            let (.., read) = StoredKey::read(&key).map_err(|e| Error::corrupt(e.to_string()))?;
            let StoredKey::Record { record: ObjectRecord::Entry(key), .. } = read else {
                return Err(Error::corrupt("an object has an entry in a layout that it denies"));
            };
            items.push((key, Val::decode(stored.value)?));
        }
    }
}

fn item(id: ObjectId, metadata: &[u8]) -> Result<ObjectItem, Error> {
    let metadata = Metadata::decode(metadata)?;
    Ok(ObjectItem { id, version: metadata.version, entries: metadata.entries() })
}

fn old_item(number: u64, object: &LegacyObject) -> ObjectItem {
    let (version, entries) = (object.version, object.entries.len() as u64);
    ObjectItem { id: ObjectId::Numeric(number), version, entries }
}

/// A prefix of identities, normalized as they are.
fn normal_prefix(prefix: &str) -> Result<String, Error> {
    if prefix.is_empty() {
        return Ok(String::new());
    }
    let normal = StringId::parse(prefix, STRING_ID_LIMIT_MAX);
    normal.map(|prefix| prefix.to_string()).map_err(|error| Error::invalid(error.to_string()))
}

/// What tells one list from all others.
fn fingerprint(parts: &[&[u8]]) -> [u8; 16] {
    let mut bytes = Vec::with_capacity(64);
    for part in parts {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(part);
    }
    SipHasher24::new().hash(&bytes).as_bytes()
}

fn head_bytes(head: Head) -> Vec<u8> {
    head.whole().0
}

fn with(head: Head, rest: &[u8]) -> Vec<u8> {
    [&head_bytes(head), rest].concat()
}
