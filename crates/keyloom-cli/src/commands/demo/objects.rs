//! Objects of the demo, in the class `order`: some by number, some by name.

use keyloom_engine::schema::Schema;
use keyloom_engine::{
    Engine, Error, ObjectAt, ObjectContent, Partition, Precondition, Rollout, Val, ValKind,
};

/// (identity, status, total): the orders.
const ORDERS: [(&str, &str, &str); 4] = [
    ("42", "sent", "19.90"),
    ("43", "paid", "7.50"),
    ("ord_2026_11_00017", "new", "120.00"),
    ("ord_2026_11_00018", "paid", "33.20"),
];

/// The schema of the grid.
pub(super) fn schema() -> Result<Schema, Error> {
    Schema::from_toml(include_str!("../../../../../schemas/grid.toml"))
}

/// Creates the orders, and lets them have names; how many there are.
pub(super) async fn load(engine: &Engine) -> Result<usize, Error> {
    if engine.rollout() == Rollout::default() {
        engine.set_rollout(Rollout::phase(3)).await?;
    }
    for (id, status, total) in ORDERS {
        let id = engine.object_id(id)?;
        let at = ObjectAt { class: "order", partition: Partition::Number(0), id: &id };
        let entry = |name: &str, json: String| {
            let val = Val { kind: ValKind::Byte, data: json.into_bytes() };
            Ok::<_, Error>((engine.entry_key(name)?, val))
        };
        let status = entry("status", format!("\"{status}\""))?;
        let total = entry("total", total.to_owned())?;
        let content = ObjectContent { entries: [status, total].into(), event: None };
        engine.set_object(at, content, Precondition::Unsaid).await?;
    }
    Ok(ORDERS.len())
}
