//! Protobuf's wire format: the sequence of a message's fields, independent of message types.

use super::ProtobufError;

/// One encoded field value of a message.
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(super) fn bytes(&self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Malformed("a length-delimited field has another wire type")),
        }
    }

    pub(super) fn text(&self) -> Result<String, ProtobufError> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| ProtobufError::Malformed("a string is not UTF-8"))
    }

    /// Negative numbers, 32-bit ones included, are sign-extended to 64 bits.
    pub(super) fn integer(&self) -> Result<i64, ProtobufError> {
        match self {
            Self::Varint(bits) => Ok(*bits as i64),
            _ => Err(ProtobufError::Malformed("an integer field has another wire type")),
        }
    }

    /// Go writes the zero of every field that is not a pointer.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Varint(bits) => *bits == 0,
            Self::Fixed64(bytes) => *bytes == [0; 8],
            Self::Fixed32 => false,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    pub(super) fn double(&self) -> Result<f64, ProtobufError> {
        match self {
            Self::Fixed64(bytes) => Ok(f64::from_le_bytes(*bytes)),
            _ => Err(ProtobufError::Malformed("a double field has another wire type")),
        }
    }
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next field's number and value; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed("a field number is too large"))?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.take(8)?.try_into().map_err(|_| ProtobufError::Malformed("a fixed64"))?),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| ProtobufError::Malformed("a length is too large"))?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed32
            }
            _ => return Err(ProtobufError::Malformed("an unknown wire type")),
        };
        Ok(Some((number, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut bits = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            bits |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(bits);
            }
        }
        Err(ProtobufError::Malformed("a varint is too long"))
    }
}
