//! Templates: what compiles, what does not, and where the error points.

use expect_test::{Expect, expect};
use keyloom_key::{Cut, Each, Kind, Order, Template};

use crate::generate::{kind_of, template};

const FIELDS: &str = "id:ulid,old:uuid,name:name,ref:id,value:text,tags:text,at:millis,n:u64,i:i64,\
                      flag:bool,status:enum(on|off_line),@created_at:millis,@owner:id";

/// The messages of templates that do not compile, one after the other.
fn check(texts: &[&str], expected: Expect) {
    let message = |text: &&str| {
        let error = Template::compile(text, &|name| kind_of(FIELDS, name)).unwrap_err();
        format!("{error}\n")
    };
    expected.assert_eq(&texts.iter().map(message).collect::<String>());
}

#[test]
fn the_key_formats_of_the_requirements_compile() {
    for (text, fields) in [
        ("usr_{usr_key}_usrName_{name}_", "usr_key:ulid,name:name"),
        ("usr_{u}_tag_{t}_tagName_{name}_", "u:ulid,t:ulid,name:name"),
        ("usr_{u}_tag_{t}_tar_{r}_key_{k}", "u:ulid,t:ulid,r:ulid,k:ulid"),
        ("USR={u}_TAG={t}", "u:uuid,t:uuid"),
        ("approval:record:{id}", "id:ulid"),
        ("approval:code:{code}", "code:text"),
        ("approval:index:pending:{created_at}:{id}", "created_at:millis,id:ulid"),
        ("{author}#{file}", "author:text,file:text"),
    ] {
        assert_eq!(template(text, fields).text(), text);
    }
}

#[test]
fn modifiers_are_read() {
    let compiled = template(
        "{at desc}:{value prefix 20}:{value prefix 8 desc}:{value desc prefix 9}:{tags[] desc}:\
         {id shard 16}:{@owner}",
        FIELDS,
    );
    let parts: Vec<_> = compiled
        .components()
        .iter()
        .map(|part| (part.field.as_str(), part.order, part.cut, part.each))
        .collect();
    assert_eq!(
        parts,
        [
            ("at", Order::Descending, Cut::Whole, Each::One),
            ("value", Order::Ascending, Cut::Prefix(20), Each::One),
            ("value", Order::Descending, Cut::Prefix(8), Each::One),
            ("value", Order::Descending, Cut::Prefix(9), Each::One),
            ("tags", Order::Descending, Cut::Whole, Each::Element),
            ("id", Order::Ascending, Cut::Shard(16), Each::One),
            ("@owner", Order::Ascending, Cut::Whole, Each::One),
        ]
    );
    assert_eq!(compiled.components()[5].kind, Kind::Ulid);
    assert_eq!(compiled.components()[5].kind_stored(), Kind::U64);
}

#[test]
fn a_template_prints_as_its_text_and_equals_another_by_text_and_kinds() {
    let one = template("k:{id}", "id:ulid");
    assert_eq!(one.to_string(), "k:{id}");
    assert_eq!(format!("{one:>8}"), "  k:{id}");
    assert!(format!("{one:?}").contains("k:{id}"));
    assert_eq!(one, template("k:{id}", "id:ulid"));
    assert_ne!(one, template("k:{id}", "id:uuid"));
    assert_ne!(one, template("l:{id}", "id:ulid"));
}

#[test]
fn a_component_whose_end_cannot_be_told_is_pointed_at() {
    check(
        &[
            "x_{value}{id}",
            "x_{name}-{id}",
            "x_{name}tag_{id}",
            "{n}7_{id}",
            "{i}-{id}",
            "{at desc}-{id}",
            "{flag}x{id}",
            "{status}_{id}",
            "{value} {id}",
            "{ref}x{id}",
            "{id shard 4}0{id}",
        ],
        expect![[r#"
            invalid key template: {id} follows {value} (text), whose end cannot be told
              x_{value}{id}
                       ^ put a literal between them
            invalid key template: '-' can occur in {name} (name), whose end cannot be told
              x_{name}-{id}
                      ^ begin the literal with another character than a letter, a digit or -
            invalid key template: 't' can occur in {name} (name), whose end cannot be told
              x_{name}tag_{id}
                      ^ begin the literal with another character than a letter, a digit or -
            invalid key template: '7' can occur in {n} (u64), whose end cannot be told
              {n}7_{id}
                 ^ begin the literal with another character than a digit
            invalid key template: '-' can occur in {i} (i64), whose end cannot be told
              {i}-{id}
                 ^ begin the literal with another character than a digit or -
            invalid key template: '-' can occur in {at} (millis), whose end cannot be told
              {at desc}-{id}
                       ^ begin the literal with another character than a digit or -
            invalid key template: 'x' can occur in {flag} (bool), whose end cannot be told
              {flag}x{id}
                    ^ begin the literal with another character than a letter
            invalid key template: '_' can occur in {status} (enum), whose end cannot be told
              {status}_{id}
                      ^ begin the literal with a character that is in none of its words
            invalid key template: ' ' can occur in {value} (text), whose end cannot be told
              {value} {id}
                     ^ begin the literal with punctuation, such as : or #
            invalid key template: 'x' can occur in {ref} (id), whose end cannot be told
              {ref}x{id}
                   ^ begin the literal with punctuation, such as : or #
            invalid key template: '0' can occur in {id} (u64), whose end cannot be told
              {id shard 4}0{id}
                          ^ begin the literal with another character than a digit
        "#]],
    );
}

#[test]
fn a_component_whose_end_can_be_told_compiles() {
    for text in [
        "{id}{old}{name}",
        "{id}0",
        "{name}_{name}:{name} {n}",
        "{n}-{i}x{at}:",
        "{flag}1{flag}_",
        "{status}:{value}",
        "{value}-{ref}#{value}_{value}",
        "{n}x{i}",
        "a b{id}",
    ] {
        template(text, FIELDS);
    }
}

#[test]
fn what_is_no_template_is_pointed_at() {
    check(
        &[
            "",
            "config",
            "a%{id}",
            "a}{id}",
            "ké_{id}",
            "k\t{id}",
            "k_{id",
            "k_{}",
            "k_{@}",
            "k_{9id}",
            "k_{i-d}",
            "k_{ id}",
            "k_{a{id}}",
            "k_{nobody}",
        ],
        expect![[r#"
            invalid key template: it has no component: add a field in braces, such as {id}
            invalid key template: it has no component
              config
                    ^ add a field in braces, such as {id}
            invalid key template: '%' cannot be part of a literal
              a%{id}
               ^ use printable ASCII without { } and %
            invalid key template: '}' cannot be part of a literal
              a}{id}
               ^ use printable ASCII without { } and %
            invalid key template: 'é' cannot be part of a literal
              ké_{id}
               ^ use printable ASCII without { } and %
            invalid key template: '\t' cannot be part of a literal
              k�{id}
               ^ use printable ASCII without { } and %
            invalid key template: the component that begins here has no end
              k_{id
                ^ add a closing brace
            invalid key template: a field name is expected here
              k_{}
                 ^ use letters, digits and _, and no digit at the beginning
            invalid key template: a field name is expected here
              k_{@}
                  ^ use letters, digits and _, and no digit at the beginning
            invalid key template: a field name is expected here
              k_{9id}
                 ^ use letters, digits and _, and no digit at the beginning
            invalid key template: a field name is expected here
              k_{i-d}
                  ^ use letters, digits and _, and no digit at the beginning
            invalid key template: a field name is expected here
              k_{ id}
                 ^ use letters, digits and _, and no digit at the beginning
            invalid key template: a field name is expected here
              k_{a{id}}
                  ^ use letters, digits and _, and no digit at the beginning
            invalid key template: there is no field "nobody" that can be in a key
              k_{nobody}
                 ^ declare it with a type that keys take, or correct the name
        "#]],
    );
}

#[test]
fn a_wrong_modifier_is_pointed_at() {
    check(
        &[
            "{id down}",
            "{id  desc}",
            "{id desc }",
            "{id desc desc}",
            "{value prefix}",
            "{value prefix x}",
            "{value prefix 0}",
            "{value prefix 08}",
            "{value prefix 257}",
            "{value prefix 3 prefix 4}",
            "{name prefix 3}",
        ],
        expect![[r#"
            invalid key template: "down" is not a modifier
              {id down}
                  ^ use desc, prefix N or shard N, one space between
            invalid key template: "" is not a modifier
              {id  desc}
                  ^ use desc, prefix N or shard N, one space between
            invalid key template: "" is not a modifier
              {id desc }
                       ^ use desc, prefix N or shard N, one space between
            invalid key template: desc is said twice
              {id desc desc}
                       ^ take the other modifier out
            invalid key template: prefix needs a number from 1 to 256
              {value prefix}
                     ^ write one, without zeros before it
            invalid key template: prefix needs a number from 1 to 256
              {value prefix x}
                            ^ write one, without zeros before it
            invalid key template: prefix needs a number from 1 to 256
              {value prefix 0}
                            ^ write one, without zeros before it
            invalid key template: prefix needs a number from 1 to 256
              {value prefix 08}
                            ^ write one, without zeros before it
            invalid key template: prefix needs a number from 1 to 256
              {value prefix 257}
                            ^ write one, without zeros before it
            invalid key template: prefix is said twice
              {value prefix 3 prefix 4}
                              ^ take the other modifier out
            invalid key template: prefix cuts text and id, but name is of kind name
              {name prefix 3}
                    ^ take the modifier out
        "#]],
    );
}

#[test]
fn a_wrong_bucket_count_or_array_is_pointed_at() {
    check(
        &[
            "{id shard 1}",
            "{id shard 99999}",
            "{id desc shard 4}",
            "{id shard 4 desc}",
            "{tags[] shard 4}",
            "{tags[]}:{tags[]}",
        ],
        expect![[r#"
            invalid key template: shard needs a number from 2 to 256
              {id shard 1}
                        ^ write one, without zeros before it
            invalid key template: shard needs a number from 2 to 256
              {id shard 99999}
                        ^ write one, without zeros before it
            invalid key template: shard stands alone
              {id desc shard 4}
                       ^ take the other modifier out
            invalid key template: shard stands alone
              {id shard 4 desc}
                          ^ take the other modifier out
            invalid key template: shard stands alone
              {tags[] shard 4}
                      ^ take the other modifier out
            invalid key template: a second [] would multiply the keys of a document
              {tags[]}:{tags[]}
                       ^ use one array in a template
        "#]],
    );
}

#[test]
fn a_template_has_at_most_16_components_and_512_bytes() {
    template(&"{id}".repeat(16), FIELDS);
    check(
        &[&"{id}".repeat(17)],
        expect![[r#"
        invalid key template: it has more than 16 components
          {id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}{id}
                                                                          ^ take some out
    "#]],
    );
    template(&format!("{}{{id}}", "x".repeat(508)), FIELDS);
    let error = Template::compile(&"x".repeat(513), &|name| kind_of(FIELDS, name)).unwrap_err();
    assert_eq!(error.position, 512);
    expect!["it has more than 512 bytes"].assert_eq(&error.problem.to_string());
}

#[test]
fn an_enum_whose_words_could_be_mistaken_is_refused() {
    let words = |list: &[&str]| Kind::Enum(list.iter().map(|word| (*word).to_owned()).collect());
    for list in [[].as_slice(), &[""], &["on", "o n"], &["a:b"], &["é"], &["50%"]] {
        let kind = words(list);
        assert!(Template::compile("{s}", &|_| Some(kind.clone())).is_err(), "{list:?}");
    }
    let kind = words(&["A-z_0.9"]);
    assert!(Template::compile("{s}", &|_| Some(kind.clone())).is_ok());
}
