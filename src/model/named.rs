//! Macro `named!`: enums with names for the variants in `lanai.toml`.

/// Declares an enum, with names of the variants in `lanai.toml`. The first variant is the default.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $variant,)* }

        impl Default for $name {
            fn default() -> $name {
                $name::ALL[0].1
            }
        }

        impl $name {
            /// All variants with their names.
            pub const ALL: &[(&str, $name)] = &[$(($text, $name::$variant),)*];

            /// Returns the variant with this name.
            pub fn named(name: &str) -> Option<$name> {
                $name::ALL.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
            }

            /// Returns the name.
            pub fn name(self) -> &'static str {
                $name::ALL.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
            }
        }
    };
}
