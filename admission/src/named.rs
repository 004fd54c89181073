//! `named!`: an enum whose variants have names.

/// Defines the enum and its `as_str`.
macro_rules! named {
    ($(#[$of:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $text:literal,)+
    }) => {
        $(#[$of])*
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}
