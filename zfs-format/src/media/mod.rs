//! Where bytes come from: files, block devices, images. Read-only by type.
