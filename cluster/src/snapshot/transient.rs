//! Values that do not outlive the place they are read from.
//!
//! serde lets a value borrow from its input. A stream has no input that stays, so what reads
//! one piece of it has to promise that nothing is borrowed: every text is handed over as one
//! to be copied, and all the rest passes through.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// A deserializer, or an access of one, over an input that goes away.
pub(super) struct Transient<'piece, D> {
    inner: D,
    piece: PhantomData<&'piece ()>,
}

impl<D> Transient<'_, D> {
    pub(super) fn new(inner: D) -> Self {
        Self {
            inner,
            piece: PhantomData,
        }
    }
}

/// A visitor, or a seed, that takes what comes from such an input.
struct Copying<'de, V> {
    inner: V,
    wanted: PhantomData<&'de ()>,
}

impl<V> Copying<'_, V> {
    fn new(inner: V) -> Self {
        Self {
            inner,
            wanted: PhantomData,
        }
    }
}

macro_rules! pass {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                self.inner.$method(Copying::new(visitor))
            }
        )*
    };
}

impl<'de, 'piece, D: Deserializer<'piece>> Deserializer<'de> for Transient<'piece, D> {
    type Error = D::Error;

    pass! {
        deserialize_any deserialize_bool
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_option deserialize_unit
        deserialize_seq deserialize_map deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_unit_struct(name, Copying::new(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Copying::new(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(length, Copying::new(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Copying::new(visitor);
        self.inner.deserialize_tuple_struct(name, length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Copying::new(visitor);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Copying::new(visitor);
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! take {
    ($($method:ident: $kind:ty)*) => {
        $(
            fn $method<E: serde::de::Error>(self, value: $kind) -> Result<V::Value, E> {
                self.inner.$method(value)
            }
        )*
    };
}

impl<'de, 'piece, V: Visitor<'de>> Visitor<'piece> for Copying<'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    // A borrowed text comes as one to be copied: that is what serde does by default.
    take! {
        visit_bool: bool
        visit_i64: i64 visit_i128: i128 visit_u64: u64 visit_u128: u128 visit_f64: f64
        visit_str: &str visit_string: String visit_bytes: &[u8] visit_byte_buf: Vec<u8>
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'piece>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Transient::new(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'piece>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Transient::new(inner))
    }

    fn visit_seq<A: SeqAccess<'piece>>(self, items: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Transient::new(items))
    }

    fn visit_map<A: MapAccess<'piece>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Transient::new(entries))
    }

    fn visit_enum<A: EnumAccess<'piece>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Transient::new(variant))
    }
}

impl<'de, 'piece, S: DeserializeSeed<'de>> DeserializeSeed<'piece> for Copying<'de, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'piece>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Transient::new(inner))
    }
}

impl<'de, 'piece, A: SeqAccess<'piece>> SeqAccess<'de> for Transient<'piece, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.inner.next_element_seed(Copying::new(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'piece, A: MapAccess<'piece>> MapAccess<'de> for Transient<'piece, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(Copying::new(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Copying::new(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'piece, A: EnumAccess<'piece>> EnumAccess<'de> for Transient<'piece, A> {
    type Error = A::Error;
    type Variant = Transient<'piece, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(Copying::new(seed))?;
        Ok((value, Transient::new(variant)))
    }
}

impl<'de, 'piece, A: VariantAccess<'piece>> VariantAccess<'de> for Transient<'piece, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Copying::new(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(length, Copying::new(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Copying::new(visitor))
    }
}
