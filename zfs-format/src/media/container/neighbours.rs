//! Files that an image names: its extents, its parent. They are followed only inside of the image's own folder.

use super::{Rules, unusable};
use crate::media::{FileId, FileMedium, MediaError, ReadAt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Images in a chain of parents. No product makes longer chains than a few dozen.
const CHAIN_MAX: usize = 64;
/// Files of a folder that are looked at for a parent.
const SIBLINGS_MAX: usize = 1000;

/// An opened file that may be an image.
#[derive(Clone, Debug)]
pub(in crate::media) struct ImageFile {
    /// Its path.
    pub(in crate::media) path: Arc<Path>,
    /// Its bytes, as stored.
    pub(in crate::media) bytes: Arc<dyn ReadAt>,
}

/// The images that lead to the one that is being opened, and how far names in it are followed.
#[derive(Clone, Debug)]
pub(in crate::media) struct Chain<'a> {
    rules: &'a Rules,
    /// The images so far, the one that was given first.
    images: Vec<FileId>,
    /// How many images up the chain it is.
    depth: usize,
}

impl<'a> Chain<'a> {
    /// A chain that begins with the image at `path`.
    pub(in crate::media) fn new(rules: &'a Rules, path: &Path) -> Self {
        Self { rules, images: FileId::of(path).into_iter().collect(), depth: 0 }
    }

    /// Opens a file that `image` names as a part of itself.
    ///
    /// # Errors
    /// [`MediaError::Container`] when the name leads out of the image's folder or to nothing; what opening gives.
    pub(in crate::media) fn open_part(&self, image: &Path, named: &str) -> Result<ImageFile, MediaError> {
        open(&self.resolve(image, named)?)
    }

    /// Opens the image that `image` names as its parent, with the chain that leads to that.
    ///
    /// # Errors
    /// As [`Chain::open_part`], and [`MediaError::Container`] when the chain is too long or comes back to itself.
    pub(in crate::media) fn open_parent(&self, image: &Path, named: &str) -> Result<(ImageFile, Self), MediaError> {
        let path = self.resolve(image, named)?;
        let id = FileId::of(&path);
        if id.is_some_and(|id| self.images.contains(&id)) {
            return Err(unusable(image, format!("its chain of parents comes back to {}", path.display())));
        }
        let mut images = self.images.clone();
        images.extend(id);
        let depth = self.depth.saturating_add(1);
        if depth >= CHAIN_MAX {
            return Err(unusable(image, format!("its chain of parents has more than {CHAIN_MAX} images")));
        }
        Ok((open(&path)?, Self { rules: self.rules, images, depth }))
    }

    /// The files beside `image` whose names end in `extension`, at most a thousand, in the order of their names.
    pub(in crate::media) fn siblings(&self, image: &Path, extension: &str) -> Vec<ImageFile> {
        self.sibling_paths(image, extension).iter().filter_map(|path| open(path).ok()).collect()
    }

    /// As [`Chain::siblings`], without opening them.
    pub(in crate::media) fn sibling_paths(&self, image: &Path, extension: &str) -> Vec<PathBuf> {
        let folder = folder_of(image);
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let is_wanted = |path: &PathBuf| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
        paths.sort();
        paths.truncate(SIBLINGS_MAX);
        paths.retain(|path| self.rules.allow_external || is_really_inside(folder, path));
        paths
    }

    /// Whether the image is the one that was given, and no parent of another.
    pub(in crate::media) fn is_first(&self) -> bool {
        self.depth == 0
    }

    /// Where the file called `named` in `image` is.
    ///
    /// A relative name that stays in the folder is taken as it is. Of any other one the last part is looked for beside
    /// the image (images were moved; ESXi and Hyper-V store absolute paths), after the path itself if that is allowed.
    fn resolve(&self, image: &Path, named: &str) -> Result<PathBuf, MediaError> {
        let folder = folder_of(image);
        // Windows programs separate with backslashes, also in images that were moved elsewhere.
        let plain = named.strip_prefix("file:///").or(named.strip_prefix("file://")).unwrap_or(named);
        let portable = plain.replace('\\', "/");
        let is_inside =
            |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let has_drive = portable.as_bytes().get(1) == Some(&b':');
        let own = Path::new(&portable);
        let base = portable.rsplit('/').next().filter(|base| !matches!(*base, "" | "." | ".."));
        let mut tried: Vec<PathBuf> = Vec::new();
        if self.rules.allow_external || (is_inside(own) && !has_drive) {
            tried.push(folder.join(own));
            tried.push(folder.join(plain));
        }
        tried.extend(base.map(|base| folder.join(base)));
        let found = tried.iter().find(|path| path.exists() && !path.is_dir());
        let Some(found) = found else {
            let advice = if is_inside(own) && !has_drive || self.rules.allow_external {
                "which is not there"
            } else {
                "which is not beside it; names outside of its folder are followed with --allow-external-paths"
            };
            return Err(unusable(image, format!("it needs the file {named}, {advice}")));
        };
        // A link may lead out of the folder, too.
        if !self.rules.allow_external && !is_really_inside(folder, found) {
            let message = format!(
                "it needs the file {named}, which is a link out of its folder; --allow-external-paths follows it"
            );
            return Err(unusable(image, message));
        }
        Ok(found.clone())
    }
}

fn folder_of(image: &Path) -> &Path {
    image.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_really_inside(folder: &Path, path: &Path) -> bool {
    match (folder.canonicalize(), path.canonicalize()) {
        (Ok(folder), Ok(path)) => path.starts_with(folder),
        _ => false,
    }
}

fn open(path: &Path) -> Result<ImageFile, MediaError> {
    Ok(ImageFile { path: path.into(), bytes: Arc::new(FileMedium::open(path)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rules: &Rules, image: &Path, named: &str) -> Result<PathBuf, String> {
        Chain::new(rules, image).resolve(image, named).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_followed_inside_of_the_folder_only() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        for file in ["in/a.vmdk", "in/sub/b.vmdk", "in/c.vmdk", "out/secret"] {
            std::fs::write(dir.path().join(file), "x").unwrap();
        }
        let image = inside.join("a.vmdk");
        let strict = Rules::default();
        assert_eq!(found(&strict, &image, "c.vmdk"), Ok(inside.join("c.vmdk")));
        assert_eq!(found(&strict, &image, "sub/b.vmdk"), Ok(inside.join("sub/b.vmdk")));
        assert_eq!(found(&strict, &image, "sub\\b.vmdk"), Ok(inside.join("sub/b.vmdk")));
        // Absolute hints lead to the file of that name beside the image.
        for named in ["/vmfs/volumes/x/vm/c.vmdk", "C:\\vm\\c.vmdk", "../other/c.vmdk", "file:///x/c.vmdk"] {
            assert_eq!(found(&strict, &image, named), Ok(inside.join("c.vmdk")), "{named}");
        }
        for named in ["../out/secret", "/etc/passwd", "", "..", "nothing", outside.join("secret").to_str().unwrap()] {
            assert!(found(&strict, &image, named).is_err(), "{named}");
        }
        let free = Rules { allow_external: true };
        assert_eq!(found(&free, &image, "../out/secret"), Ok(inside.join("../out/secret")));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.join("secret"), inside.join("link")).unwrap();
            let error = found(&strict, &image, "link").unwrap_err();
            assert!(error.contains("--allow-external-paths"), "{error}");
            assert!(found(&free, &image, "link").is_ok());
        }
    }

    #[test]
    fn a_chain_that_comes_back_to_itself_ends() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a", "b"] {
            std::fs::write(dir.path().join(file), "x").unwrap();
        }
        let rules = Rules::default();
        let image = dir.path().join("a");
        let chain = Chain::new(&rules, &image);
        let (parent, chain) = chain.open_parent(&image, "b").unwrap();
        let error = chain.open_parent(&parent.path, "a").unwrap_err();
        assert!(error.to_string().contains("comes back to"), "{error}");
    }
}
