//! `named!`: an enum whose variants have names.

/// Defines the enum, its `as_str`, and all of its variants in their order.
#[macro_export]
macro_rules! named {
    ($(#[$of:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal,)+
    }) => {
        $(#[$of])*
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}
