//! SHA-256 (FIPS 180-4), for digests of plans.
//!
//! Written here, because `core` links no C and nothing that reads from the machine, as ring does; a
//! test of the plugin compares it with ring's.

use std::fmt::Write as _;

/// The fractional parts of the cube roots of the first 64 primes.
const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The fractional parts of the square roots of the first 8 primes.
const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// `sha256:` and 64 hexadecimal digits.
pub fn digest(text: &[u8]) -> String {
    let mut state = START;
    let mut blocks = text.chunks_exact(64);
    for block in &mut blocks {
        state = compress(state, block);
    }
    // A one, zeros, and the length in bits at the end of a block.
    let mut rest = blocks.remainder().to_vec();
    rest.push(0x80);
    let zeros = (64 + 56 - rest.len() % 64) % 64;
    rest.resize(rest.len() + zeros, 0);
    let bits = u64::try_from(text.len())
        .unwrap_or(u64::MAX)
        .wrapping_mul(8);
    rest.extend(bits.to_be_bytes());
    for block in rest.chunks_exact(64) {
        state = compress(state, block);
    }
    let mut digest = String::from("sha256:");
    for word in state {
        // Writing to a String does not fail.
        let _ = write!(digest, "{word:08x}");
    }
    digest
}

#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
fn compress(state: [u32; 8], block: &[u8]) -> [u32; 8] {
    // The last sixteen words of the schedule; each round takes the first and appends one.
    let mut schedule = [0_u32; 16];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    for round in ROUNDS {
        let [first, second, .., tenth, _, _, _, _, fifteenth, _] = schedule;
        let big1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let one = h
            .wrapping_add(big1)
            .wrapping_add(choice)
            .wrapping_add(round)
            .wrapping_add(first);
        let big0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let two = big0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(one));
        (d, c, b, a) = (c, b, a, one.wrapping_add(two));
        let small0 = second.rotate_right(7) ^ second.rotate_right(18) ^ second >> 3;
        let small1 = fifteenth.rotate_right(17) ^ fifteenth.rotate_right(19) ^ fifteenth >> 10;
        let next = first
            .wrapping_add(small0)
            .wrapping_add(tenth)
            .wrapping_add(small1);
        schedule.rotate_left(1);
        if let Some(last) = schedule.last_mut() {
            *last = next;
        }
    }
    let ended = [a, b, c, d, e, f, g, h];
    let mut sum = state;
    for (word, add) in sum.iter_mut().zip(ended) {
        *word = word.wrapping_add(add);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-4's own examples, and the empty text.
        for (text, hash) in [
            (
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ] {
            assert_eq!(digest(text.as_bytes()), format!("sha256:{hash}"), "{text}");
        }
        let million = "a".repeat(1_000_000);
        assert_eq!(
            digest(million.as_bytes()),
            "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }
}
