//! GUIDs: numbers of 16 bytes that name things.

/// A GUID as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guid(pub(super) [u8; 16]);

impl Guid {
    /// From its five groups as they are written; the first three are stored little endian.
    pub(super) const fn new(first: u32, second: u16, third: u16, rest: u64) -> Self {
        let ([a, b, c, d], [e, f]) = (first.to_le_bytes(), second.to_le_bytes());
        let ([g, h], [i, j, k, l, m, n, o, p]) = (third.to_le_bytes(), rest.to_be_bytes());
        Self([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// The one at `offset` of `bytes`; zeros beyond their end.
    pub(super) fn at(bytes: &[u8], offset: usize) -> Self {
        Self(bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default())
    }

    /// From text such as `{83ed3f3f-d7a5-4e01-9a2c-7f0b1c2d3e4f}`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain: String = text.chars().filter(|digit| !matches!(digit, '{' | '}' | '-' | ' ')).collect();
        let number = |range| u64::from_str_radix(plain.get(range)?, 16).ok();
        let first = u32::try_from(number(0..8)?).ok()?;
        let (second, third) = (u16::try_from(number(8..12)?).ok()?, u16::try_from(number(12..16)?).ok()?);
        (plain.len() == 32).then_some(Self::new(first, second, third, number(16..32)?))
    }

    pub(super) fn is_zero(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_groups_give_the_stored_form() {
        let stored = [0x66, 0x77, 0xc2, 0x2d, 0x23, 0xf6, 0, 0x42, 0x9d, 0x64, 0x11, 0x5e, 0x9b, 0xfd, 0x4a, 8];
        assert_eq!(Guid::new(0x2DC2_7766, 0xF623, 0x4200, 0x9D64_115E_9BFD_4A08).0, stored);
        assert_eq!(Guid::parse("{2dc27766-f623-4200-9D64-115e9bfd4a08}").map(|guid| guid.0), Some(stored));
        for wrong in ["", "{2dc27766}", "2dc27766-f623-4200-9d64-115e9bfd4a080", "äää"] {
            assert_eq!(Guid::parse(wrong), None, "{wrong}");
        }
    }
}
