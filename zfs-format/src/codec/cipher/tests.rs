//! Known answers. Published vectors, each computed once more by OpenSSL 3.0.

use super::{Cipher, CipherError, CipherMode, Mac, derive_key, digest, passphrase_key};

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

struct Vector {
    mode: CipherMode,
    key: &'static str,
    iv: &'static str,
    aad: &'static str,
    plain: &'static str,
    /// Ciphertext, then MAC.
    cipher: &'static str,
}

const GCM_IV: &str = "cafebabefacedbaddecaf888";
const GCM_AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const GCM_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";

/// GCM: test cases 4, 10 and 16 of the specification that became NIST SP 800-38D (McGrew, Viega). CCM: the first vector
/// with 12 bytes of nonce in VNT128, VNT192 and VNT256 of NIST's CAVP for SP 800-38C.
const VECTORS: &[Vector] = &[
    Vector {
        mode: CipherMode::Gcm,
        key: "feffe9928665731c6d6a8f9467308308",
        iv: GCM_IV,
        aad: GCM_AAD,
        plain: GCM_PLAIN,
        cipher: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
    },
    Vector {
        mode: CipherMode::Gcm,
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c",
        iv: GCM_IV,
        aad: GCM_AAD,
        plain: GCM_PLAIN,
        cipher: "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda27102519498e80f1478f37ba55bd6d27618c",
    },
    Vector {
        mode: CipherMode::Gcm,
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        iv: GCM_IV,
        aad: GCM_AAD,
        plain: GCM_PLAIN,
        cipher: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
    },
    Vector {
        mode: CipherMode::Ccm,
        key: "005e8f4d8e0cbf4e1ceeb5d87a275848",
        iv: "0ec3ac452b547b9062aac8fa",
        aad: "2f1821aa57e5278ffd33c17d46615b77363149dbc98470413f6543a6b749f2ca",
        plain: "b6f345204526439daf84998f380dcfb4b4167c959c04ff65",
        cipher: "9575e16f35da3c88a19c26a7b762044f4d7bbbafeff05d754829e2a7752fa3a14890972884b511d8",
    },
    Vector {
        mode: CipherMode::Ccm,
        key: "d49b255aed8be1c02eb6d8ae2bac6dcd7901f1f61df3bbf5",
        iv: "1af29e721c98e81fb6286370",
        aad: "64f8a0eee5487a4958a489ed35f1327e2096542c1bdb2134fb942ca91804c274",
        plain: "062eafb0cd09d26e65108c0f56fcc7a305f31c34e0f3a24c",
        cipher: "721344e2fd05d2ee50713531052d75e4071103ab0436f65f0af2a663da51bac626c9f4128ba5ec0b",
    },
    Vector {
        mode: CipherMode::Ccm,
        key: "d6ff67379a2ead2ca87aa4f29536258f9fb9fc2e91b0ed18e7b9f5df332dd1dc",
        iv: "2f1d0717a822e20c7cd28f0a",
        aad: "d50741d34c8564d92f396b97be782923ff3c855ea9757bde419f632c83997630",
        plain: "98626ffc6c44f13c964e7fcb7d16e988990d6d063d012d33",
        cipher: "50e22db70ac2bab6d6af7059c90d00fbf0fb52eee5eb650e08aca7dec636170f481dcb9fefb85c05",
    },
];

#[test]
fn published_vectors_of_every_mode_and_size_decrypt() {
    for vector in VECTORS {
        let cipher = Cipher::new(vector.mode, &bytes(vector.key)).unwrap();
        let mut data = bytes(vector.cipher);
        let mac: [u8; 16] = data.split_off(data.len() - 16).try_into().unwrap();
        let iv: [u8; 12] = bytes(vector.iv).try_into().unwrap();
        cipher.decrypt(&iv, &bytes(vector.aad), &mac, &mut data).unwrap();
        assert_eq!(data, bytes(vector.plain), "{:?} {}", vector.mode, vector.key.len() * 4);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_a_wrong_mac() {
    for vector in VECTORS {
        let cipher = Cipher::new(vector.mode, &bytes(vector.key)).unwrap();
        let mut whole = bytes(vector.cipher);
        let mac = whole.split_off(whole.len() - 16);
        let parts = [bytes(vector.iv), bytes(vector.aad), mac, whole];
        for (part, length) in parts.iter().map(Vec::len).enumerate() {
            for at in [0, length - 1] {
                let mut parts = parts.clone();
                parts[part][at] ^= 4;
                let [iv, aad, mac, mut data] = parts;
                let result = cipher.decrypt(&iv.try_into().unwrap(), &aad, &mac.try_into().unwrap(), &mut data);
                assert_eq!(result, Err(CipherError::WrongMac), "{:?}: byte {at} of part {part}", vector.mode);
            }
        }
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    for length in [0, 8, 15, 17, 31, 33, 64] {
        for mode in [CipherMode::Ccm, CipherMode::Gcm] {
            assert!(matches!(Cipher::new(mode, &vec![1; length]), Err(CipherError::KeyLength)));
        }
    }
}

#[test]
fn ccm_says_that_its_length_field_ends() {
    let cipher = Cipher::new(CipherMode::Ccm, &[1; 16]).unwrap();
    let mut data = vec![0; 1 << 24];
    assert_eq!(cipher.decrypt(&[0; 12], &[], &[0; 16], &mut data), Err(CipherError::TooLong));
}

/// RFC 6070, and its sixth vector's input for 32 bytes.
#[test]
fn pbkdf2_gives_the_answers_of_rfc_6070() {
    let first = |key: &str, salt: &str, rounds, length: usize| {
        passphrase_key(key.as_bytes(), salt.as_bytes(), rounds).unwrap()[..length].to_vec()
    };
    assert_eq!(first("password", "salt", 1, 20), bytes("0c60c80f961f0e71f3a9b524af6012062fe037a6"));
    assert_eq!(first("password", "salt", 2, 20), bytes("ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"));
    assert_eq!(first("password", "salt", 4096, 20), bytes("4b007901b765489abead49d926f721d065a429c1"));
    let (long, salt) = ("passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt");
    assert_eq!(first(long, salt, 4096, 25), bytes("3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"));
}

#[test]
fn rounds_without_end_are_refused() {
    assert!(passphrase_key(b"password", b"salt", 0).is_none());
    assert!(passphrase_key(b"password", b"salt", u64::MAX).is_none());
    assert!(passphrase_key(b"password", b"salt", 1 << 32).is_none());
}

/// The published vectors of RFC 5869 have no SHA-512: these are of OpenSSL 3.0, for lengths that ZFS uses.
#[test]
fn hkdf_gives_the_answers_of_openssl() {
    let counted = |length: u8| (0..length).collect::<Vec<u8>>();
    for (length, wanted) in [
        (32, "a86b00dfaf898f8fd5ef9a8a39466dd92d01b85d92f5be3532f28b8f150db5ca"),
        (24, "5aebf79c59668e3d5398492d8e908d504ccc035ec3689d85"),
        (16, "062d2115cd786d4d3d5068e646526d6d"),
    ] {
        assert_eq!(*derive_key(&counted(length), &counted(8)), bytes(wanted), "{length} bytes");
    }
}

/// RFC 4231, test case 2; FIPS 180-4, "abc".
#[test]
fn hmac_and_digest_give_published_answers() {
    let mut mac = Mac::new(b"Jefe").unwrap();
    mac.update(b"what do ya want ");
    mac.update(b"for nothing?");
    let wanted = "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737";
    assert_eq!(mac.finish().to_vec(), bytes(wanted));
    assert_eq!(digest(b"abc").to_vec(), bytes("ddaf35a193617abacc417349ae204131"));
}

#[test]
fn what_holds_a_key_prints_nothing_of_it() {
    let cipher = Cipher::new(CipherMode::Gcm, &[0xab; 32]).unwrap();
    assert_eq!(format!("{cipher:?} {:?}", Mac::new(&[0xab; 64]).unwrap()), "Cipher(..) Mac(..)");
}
