//! Tests of packed documents.

use super::*;

const SMALL: SamplePolicy = SamplePolicy { small: 4 << 10, large: 4 << 10, alike: 3, share: 64 };

fn event(n: usize) -> Vec<u8> {
    let owners = "f:count f:firstTimestamp f:involvedObject f:lastTimestamp f:message f:reason f:source ".repeat(3);
    format!(r#"{{"kind":"Event","metadata":{{"name":"e{n}"}},"owners":"{owners}","message":"{}"}}"#, n * 7919).into()
}

/// Bytes without a pattern.
fn noise(state: &mut u64, length: usize) -> Vec<u8> {
    let next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn packed_documents_keep_their_content_and_take_a_fraction() {
    let mut packer = Packer::new(SMALL);
    let (mut whole, mut packed) = (0, 0);
    for n in 0..200 {
        let document = event(n);
        let one = packer.pack(&document).expect("it is like the others");
        assert_eq!((one.unpack(), one.length()), (document.clone(), document.len()));
        (whole, packed) = (whole + document.len(), packed + one.size());
    }
    assert!(packed * 5 < whole, "{packed} of {whole}");
    assert!(packer.pack(b"short").is_none());
}

#[test]
fn unlike_documents_stay_whole_and_samples_are_few() {
    let mut packer = Packer::new(SMALL);
    let (mut state, mut samples) = (1, 0);
    for _ in 0..256 {
        let before = Arc::clone(&packer.sample);
        assert!(packer.pack(&noise(&mut state, 40 << 10)).is_none(), "noise cannot be compressed");
        samples += usize::from(!Arc::ptr_eq(&before, &packer.sample));
        assert!(packer.sample().len() <= 4 << 10);
    }
    assert_eq!(samples, 1);
}

#[test]
fn documents_that_hardly_shrink_cost_at_most_a_share_of_a_sample() {
    const LARGE: usize = 16 << 10;
    let policy = SamplePolicy { small: 4 << 10, large: LARGE, alike: 4, share: 256 };
    let (mut packer, mut state) = (Packer::new(policy), 1);
    let mut samples: Vec<Arc<Box<[u8]>>> = Vec::new();
    let documents = 2 * LARGE / policy.share;
    for _ in 0..documents {
        // Half of it is the same in all.
        let document = [&noise(&mut state, 1000)[..], &[b'x'; 1000]].concat();
        let Some(packed) = packer.pack(&document) else { continue };
        if !samples.iter().any(|sample| Arc::ptr_eq(sample, &packed.sample)) {
            samples.push(packed.sample);
        }
    }
    let held: usize = samples.iter().map(|sample| sample.len()).sum();
    assert!(held <= documents * policy.share + LARGE, "{held} in {} samples", samples.len());
    assert!(samples.iter().all(|sample| sample.len() <= LARGE));
}

/// A document of pieces of the others, of repeated and of new bytes.
fn mixed(state: &mut u64, known: &[u8], pieces: usize) -> Vec<u8> {
    let mut document = Vec::new();
    for _ in 0..pieces {
        let [kind, length, place, _] = noise(state, 4)[..] else { unreachable!("four bytes") };
        let length = usize::from(length) << (kind >> 5);
        match kind % 4 {
            0 => document.extend(noise(state, length % 40)),
            1 => document.extend(std::iter::repeat_n(place, length)),
            2 => document.extend(known.iter().skip(usize::from(place) * 16).take(length)),
            _ => {
                let start = document.len().saturating_sub(usize::from(place) * 300);
                let part: Vec<u8> = document[start..].iter().take(length).copied().collect();
                document.extend(part);
            }
        }
    }
    document
}

#[test]
fn every_document_is_read_back() {
    let policies = [SMALL, SamplePolicy { small: 4 << 10, large: 16 << 10, alike: 4, share: 256 }];
    let (mut state, mut packed) = (7, 0);
    for policy in policies {
        let mut packer = Packer::new(policy);
        for n in 0..600 {
            let known = packer.sample().to_vec();
            let document = mixed(&mut state, &known, 1 + n % 40);
            // Each is compressed, also if it would stay whole.
            if let Some(bytes) = packer.compressed(&document) {
                let read = lz4_flex::block::decompress_with_dict(&bytes, document.len(), &known);
                assert_eq!(read.expect("a block"), document, "document {n}");
            }
            if let Some(one) = packer.pack(&document) {
                assert_eq!(one.unpack(), document);
                packed += 1;
            }
        }
    }
    assert!(packed > 600, "{packed} of 1200");
}

#[test]
fn documents_at_the_limits_of_the_format_are_read_back() {
    let mut positions = block::Positions::of(&[]);
    let lengths = [0, 1, 4, 5, 11, 12, 13, 16, 17, 18, 19, 20, 254 + 15, 255 + 15, 256 + 19, 65_535, 65_536, 200_000];
    for length in lengths {
        for document in
            [vec![b'a'; length], noise(&mut 3, length), [noise(&mut 4, length), noise(&mut 4, length)].concat()]
        {
            let bytes = compress(&document, 0, &mut positions);
            let read = lz4_flex::block::decompress(&bytes, document.len());
            assert_eq!(read.expect("a block"), document, "{length}");
        }
    }
}
