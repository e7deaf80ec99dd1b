//! Files as they are or compressed. The first bytes say which, as in Python's `datasets`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::DataError;

/// The first bytes of files that are archives of others.
const ARCHIVES: [(&[u8], &str); 3] = [
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
];

/// Bytes that unpacking may take: a file asks for what it likes.
const XZ_MEMORY: u64 = 256 << 20;

/// Frames of LZ4, one after the other.
struct Lz4 {
    /// None at the end.
    frame: Option<lz4::Decoder<BufReader<File>>>,
}

impl Read for Lz4 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(frame) = &mut self.frame {
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            if let Some(ended) = self.frame.take() {
                // Only this tells of a frame that is cut. Its kind of error would be tried again.
                let (mut rest, outcome) = ended.finish();
                outcome.map_err(|_| io::Error::new(io::ErrorKind::UnexpectedEof, "the LZ4 frame is cut"))?;
                if !rest.fill_buf()?.is_empty() {
                    self.frame = Some(lz4::Decoder::new(rest)?);
                }
            }
        }
        Ok(0)
    }
}

/// Opens a file to be read from its beginning.
///
/// # Errors
/// It cannot be read, or is an archive of files.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let read = |source| DataError::Read {
        path: path.into(),
        source,
    };
    let mut file = File::open(path).map_err(read)?;
    let mut start = [0; 10];
    let length = begin(&mut file, &mut start).map_err(read)?;
    let start = &start[..length];
    if let Some((_, what)) = ARCHIVES.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(DataError::Archive {
            path: path.into(),
            what,
        });
    }
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::new(file))),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y']
        | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90] => {
            Box::new(MultiBzDecoder::new(BufReader::new(file)))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED).map_err(|error| read(error.into()))?;
            Box::new(XzDecoder::new_stream(BufReader::new(file), stream))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(file).map_err(read)?),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(Lz4 {
            frame: Some(lz4::Decoder::new(BufReader::new(file)).map_err(read)?),
        }),
        _ => Box::new(file),
    })
}

/// Reads the first bytes and goes back.
fn begin(file: &mut File, start: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    loop {
        match file.read(&mut start[length..])? {
            0 => break,
            read => length += read,
        }
    }
    file.rewind()?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &str = "one\n\ntwo\n";

    fn read(bytes: &[u8]) -> Result<String, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut text = String::new();
        let mut reader = open(file.path()).map_err(|error| error.to_string())?;
        reader.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn a_compressed_file_is_its_text() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT.as_bytes()).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(TEXT.as_bytes()).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(TEXT.as_bytes()).unwrap();
        let mut lz4 = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
        lz4.write_all(TEXT.as_bytes()).unwrap();
        let (lz4, result) = lz4.finish();
        result.unwrap();
        for bytes in [
            gzip.finish().unwrap(),
            bzip2.finish().unwrap(),
            xz.finish().unwrap(),
            zstd::encode_all(TEXT.as_bytes(), 1).unwrap(),
            lz4,
        ] {
            assert_eq!(read(&bytes).unwrap(), TEXT);
            // Parts one after the other, as `cat a.gz b.gz` makes them.
            assert_eq!(read(&[&bytes[..], &bytes].concat()).unwrap(), TEXT.repeat(2));
            assert!(
                read(&bytes[..bytes.len() - 5]).is_err(),
                "it was cut: {:x?}",
                &bytes[..4]
            );
        }
        for text in [TEXT, "BZh is a text"] {
            assert_eq!(read(text.as_bytes()).unwrap(), text);
        }
        assert_eq!(read(b"").unwrap(), "");
    }

    #[test]
    fn an_archive_is_named() {
        let message = read(b"PK\x03\x04rest").unwrap_err();
        assert!(
            message.ends_with("a zip archive of files, which is not read; unpack it"),
            "{message}"
        );
    }
}
