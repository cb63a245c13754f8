//! JSON that keeps the order of its fields, so that somebody's settings look afterwards
//! as they did before.

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};
use sjail_policy::show::inert;

/// A JSON value whose fields stay in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// Anything without fields.
    Plain(Value),
    /// A list.
    List(Vec<Json>),
    /// Fields, in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// No fields.
    pub fn object() -> Json {
        Json::Object(Vec::new())
    }

    /// The field of that name, made if it is not there; nothing where there are no fields.
    pub fn field(&mut self, name: &str, otherwise: Json) -> Option<&mut Json> {
        let Json::Object(fields) = self else {
            return None;
        };
        let at = match fields.iter().position(|(own, _)| own == name) {
            Some(at) => at,
            None => {
                fields.push((name.to_owned(), otherwise));
                fields.len() - 1
            }
        };
        fields.get_mut(at).map(|(_, value)| value)
    }

    /// Its items, where it is a list.
    pub fn items(&mut self) -> Option<&mut Vec<Json>> {
        match self {
            Json::List(items) => Some(items),
            _ => None,
        }
    }

    /// The same as a value; an error names a field that is there twice: which of them counts is
    /// each reader's own affair.
    pub fn unambiguous(self) -> Result<Value, String> {
        Ok(match self {
            Json::Plain(value) => value,
            Json::List(items) => Value::Array(
                items
                    .into_iter()
                    .map(Json::unambiguous)
                    .collect::<Result<_, _>>()?,
            ),
            Json::Object(fields) => {
                let mut map = serde_json::Map::new();
                for (name, value) in fields {
                    if map.contains_key(&name) {
                        return Err(inert(name.as_bytes()));
                    }
                    map.insert(name, value.unambiguous()?);
                }
                Value::Object(map)
            }
        })
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        match value {
            Value::Array(items) => Json::List(items.into_iter().map(Json::from).collect()),
            Value::Object(fields) => Json::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, Json::from(value)))
                    .collect(),
            ),
            plain => Json::Plain(plain),
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Plain(value) => value.serialize(serializer),
            Json::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Json::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = Json;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Plain(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        let number = Number::from_f64(value);
        Ok(Json::Plain(number.map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn order_and_values_stay() {
        let text = r#"{"z":1,"a":[true,null,-2,1.5,{"y":"x","b":{}}]}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(json.unambiguous().unwrap(), plain);
        let twice: Json = serde_json::from_str(r#"{"a":[{"b\u001b":1,"b\u001b":1}]}"#).unwrap();
        assert_eq!(twice.unambiguous().unwrap_err(), "b\\x1b");
    }
}
