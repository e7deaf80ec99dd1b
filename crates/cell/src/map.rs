//! The macro that declares a map of keys.

/// Declares a map of a cell: each key with its doc, its type, its default and its facts. `of` names what a key's default
/// follows from: the cell, or the part of it that decides which keys it heeds.
///
/// Facts, in this order, each of which may be missing:
/// * `open`: what leaving the key out comes to. A value that says it is left out of the id.
/// * `filled`: the value that the key comes to, where that is no matter of `open`.
/// * `plain`: the value that stands in the id for all that mean the same.
/// * The fields of [`Facts`](super::facts::Facts).
macro_rules! cell_keys {
    (
        $(#[$map_meta:meta])*
        pub struct $map:ident of $whole:ty {
            $(
                $(#[$meta:meta])*
                $key:ident: $type:ty = $default:expr => {
                    $(open: $open:expr,)?
                    $(filled: $filled:expr,)?
                    $(plain: $plain:expr,)?
                    $(stacks: $stacks:expr,)?
                    $(heeded: $heeded:expr,)?
                    $(idle: $idle:expr,)?
                    $(of_process: $of_process:expr,)?
                    $(of_adapters: $of_adapters:expr,)?
                    $(aliases: $aliases:expr,)?
                    $(example: $example:expr,)?
                    $(no_technique: $no_technique:expr,)?
                    $(of_training: $of_training:expr,)?
                    $(untried: $untried:expr,)?
                    $(acts: $acts:expr,)?
                    $(nested: $nested:expr,)?
                }
            )+
        }
    ) => {
        $(#[$map_meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $map {
            $($(#[$meta])* pub $key: $type,)+
        }

        impl Default for $map {
            fn default() -> Self {
                Self {
                    $($key: $default,)+
                }
            }
        }

        impl $map {
            /// The value of one of its keys as a spec has it; null of another name.
            pub fn field(&self, key: &str) -> ::serde_json::Value {
                match key {
                    $(stringify!($key) => ::serde_json::to_value(&self.$key).unwrap_or_default(),)+
                    _ => ::serde_json::Value::Null,
                }
            }

            /// The keys, in the order of the struct, with what is known of each.
            pub const FACTS: &'static [(&'static str, $crate::facts::Facts)] = &[
                $((stringify!($key), $crate::facts::Facts {
                    $(stacks: $stacks,)?
                    $(heeded: $heeded,)?
                    $(idle: Some($idle),)?
                    $(of_process: $of_process,)?
                    $(of_adapters: $of_adapters,)?
                    $(aliases: &$aliases,)?
                    $(example: Some($example),)?
                    $(no_technique: Some($no_technique),)?
                    $(of_training: $of_training,)?
                    $(untried: Some($untried),)?
                    $(acts: &$acts,)?
                    $(nested: $nested,)?
                    ..$crate::facts::Facts::NONE
                }),)+
            ];

            /// The map with the values that the defaults of `cell` come to, in place of the keys that are left out.
            pub(super) fn filled(self, cell: &$whole) -> Self {
                _ = cell;
                Self {
                    $($key: {
                        let value = self.$key;
                        $(
                            let open: fn(&$whole) -> $type = $open;
                            let value = value.or_else(|| open(cell));
                        )?
                        $(
                            let filled: fn($type, &$whole) -> $type = $filled;
                            let value = filled(value, cell);
                        )?
                        value
                    },)+
                }
            }

            /// The map of `cell` written in one way, without values that say what leaving a key out means.
            pub(super) fn plain(self, cell: &$whole) -> Self {
                _ = cell;
                Self {
                    $($key: {
                        let value = self.$key;
                        $(
                            let open: fn(&$whole) -> $type = $open;
                            let value = value.filter(|value| Some(value) != open(cell).as_ref());
                        )?
                        $(
                            let plain: fn($type, &$whole) -> $type = $plain;
                            let value = plain(value, cell);
                        )?
                        value
                    },)+
                }
            }
        }
    };
}

pub(super) use cell_keys;
