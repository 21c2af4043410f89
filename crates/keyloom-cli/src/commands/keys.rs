//! `keyloom keys`: the stored keys of a collection or an index, in text spelling.

use keyloom_engine::KeyQuery;

use super::{Session, show};
use crate::args::Keys;
use crate::output::{Format, counted, visible};
use crate::problem::Failure;

pub(super) async fn run(session: &mut Session<'_>, keys: Keys) -> Result<(), Failure> {
    let Keys { collection, index, prefix, limit, after } = keys;
    let asked = KeyQuery { path: index, prefix, limit, after };
    let page = session.backend.keys(&collection, &asked).await?;
    let output = &mut *session.output;
    if output.format() == Format::Json {
        return output.json(&page);
    }
    page.keys.iter().try_for_each(|key| output.line(visible(key)))?;
    let found = counted(u64::try_from(page.keys.len()).unwrap_or(u64::MAX), "key");
    show::cost(output, &format!("{found} · {}", page.path), &page.cost)?;
    show::next_page(output, "--after", page.next.as_deref())
}
