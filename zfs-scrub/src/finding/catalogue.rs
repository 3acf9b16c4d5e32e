//! The catalogue: one row for each kind of finding. Codes are never reused or renumbered.

use super::Severity;

/// What a code means, for reports and for `zcheck explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `ZC` and four digits; the first two name the area.
    pub code: &'static str,
    /// How bad it is unless the instance says otherwise.
    pub severity: Severity,
    /// A few words.
    pub title: &'static str,
    /// What it means, in a paragraph.
    pub meaning: &'static str,
    /// What usually causes it.
    pub causes: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

macro_rules! catalogue {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $severity:ident, $title:literal,
        meaning: $meaning:literal, causes: $causes:literal, advice: $advice:literal;)*) => {
        /// Every kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// All kinds, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The row of the catalogue.
            #[must_use]
            pub fn entry(self) -> &'static Entry {
                match self {
                    $(Self::$kind => &Entry { code: $code, severity: Severity::$severity, title: $title,
                        meaning: $meaning, causes: $causes, advice: $advice },)*
                }
            }
        }
    };
}

catalogue! {
    /// A label's configuration does not match its checksum, or cannot be read.
    LabelDamaged = "ZC0101", Degraded, "label damaged",
        meaning: "Each device carries four labels. The configuration in one of them does not match its checksum, cannot be parsed, or cannot be read. The pool was opened from the others.",
        causes: "Something wrote over the start or the end of the device (a partition table, a boot loader, another file system, dd), or the medium is failing there.",
        advice: "As long as one label is whole, the pool can be imported, and ZFS rewrites all labels when its configuration next changes. Find out what wrote there before that.";
    /// A label is not there at all.
    LabelMissing = "ZC0102", Degraded, "label missing",
        meaning: "Each device carries four labels, two at its start and two at its end. At one of these places there is no label at all.",
        causes: "The start or the end of the device was overwritten, the device was cut short, or it grew and its last two labels still lie at the old end.",
        advice: "If the device grew, `zpool online -e` writes labels at the new end. Otherwise find out what wrote there, or what cut the device short.";
    /// The device ends before the label says.
    DeviceTooShort = "ZC0103", Damaged, "device shorter than its label says",
        meaning: "The label records more space than the device has. Blocks beyond its end are gone.",
        causes: "An image that was not copied to its end, a truncated file, a partition made smaller, a LUN mapped with the wrong size.",
        advice: "Copy the image again and compare sizes, or restore the size of the partition. Do not import the pool for writing as it is.";
    /// The labels of one device describe different pools or members.
    LabelsDisagree = "ZC0104", Note, "labels disagree",
        meaning: "The valid labels of one device do not name the same pool and the same member. The newest one that fits the pool is used.",
        causes: "The labels of an older pool were left on the device when a smaller one was made on it, or two members were mixed up while they were copied.",
        advice: "Check that the right device, or the right partition of it, was given.";
    /// Several inputs carry the same member.
    MemberTwice = "ZC0105", Note, "the same member given twice",
        meaning: "Two of the given paths hold the same member of the pool (their guids are equal). The one with the newest uberblock is used; the other is not read.",
        causes: "One device under two names, a copy of a disk beside the original, two paths of a multipath device.",
        advice: "Give each member once. If one is an older copy, remove it from the list.";
    /// A member of the pool was not given.
    MemberMissing = "ZC0106", Degraded, "member missing",
        meaning: "The configuration of the pool lists a device that was not among the given paths.",
        causes: "A disk that is unplugged or dead, or a path that was not given.",
        advice: "Give all members, or the directory they lie in. What could be checked without this one was checked.";
    /// A part of the configuration could not be read.
    ConfigIncomplete = "ZC0107", Degraded, "configuration incomplete",
        meaning: "The pool's own list of devices in the MOS could not be read or parsed; the labels of the given devices were used instead.",
        causes: "Damage to the MOS (the pool's own metadata), which has findings of its own.",
        advice: "Look at the findings whose place is <metadata>. Devices that the labels do not know of may be missing from this report.";
    /// The pool was not exported.
    NotExported = "ZC0108", Note, "pool was not exported",
        meaning: "The labels say that the pool is in use. If it is imported somewhere right now, what was read may be a mixture of several states, and findings may be false. If it is not, its host went down without exporting it, and this is harmless.",
        causes: "An image taken of a running system, a crash, a disk that was pulled.",
        advice: "If the pool may be imported elsewhere, export it there first, or check a snapshot of the device.";
    /// A device names the pool and is none of its devices.
    NotAMember = "ZC0109", Note, "device is no member",
        meaning: "The labels of a given device name this pool, but the pool's configuration does not list the device; or it is a hot spare or a cache device that the pool does not list. It is not used.",
        causes: "A disk that was detached, replaced or removed from the pool, or one whose addition was interrupted; a spare or a cache of another pool.",
        advice: "Nothing, unless the device should be a member: then an older state of the pool may still list it.";
    /// A device is out of date, and the pool knows.
    MemberStale = "ZC0110", Note, "device out of date",
        meaning: "The pool records that this device was away, or is still being filled, for some transaction groups (its dirty time log). Copies from those are out of date there, as expected; they are not damage, and not redundancy either.",
        causes: "A device that was offline or faulted while the pool was written, or a resilver or a replacement that has not finished.",
        advice: "Bring the device online in the pool and let it resilver.";
    /// A device's newest state is older than its siblings'.
    MemberBehind = "ZC0111", Note, "device behind its siblings",
        meaning: "The newest uberblock of this device is older than those of the devices that hold the same data, and the pool does not record that it was away. What was written in between is probably not on it; blocks that are wrong for it have findings of their own.",
        causes: "An older copy or snapshot of the device given beside newer ones, a device that was lost shortly before the others were, or one that confirmed writes and did not keep them.",
        advice: "Give the newest copy of each device. If this is the newest, import the pool and run `zpool scrub`.";
    /// Two devices claim to be one member, in the same txg, with different content.
    MemberRivals = "ZC0112", Note, "two devices claim to be one member",
        meaning: "Two of the given devices carry the same guid and are in the same txg, but their contents differ: each went on from a common state by itself. One was checked, the other was not; neither claim is better than the other.",
        causes: "A copy of a disk, or a cloned virtual machine, was used beside the original.",
        advice: "Check them one at a time, each with the other left out, and decide by what they hold which is to be kept. Never let ZFS see both at once.";
    /// Two devices stand in each other's place.
    ContentsExchanged = "ZC0113", Damaged, "contents of two devices exchanged",
        meaning: "Blocks that are wrong where the labels say that they lie are right on the other one of two devices: each carries the labels of the other. The data itself may be whole.",
        causes: "Labels that were copied back onto the wrong device, or two images whose ends or starts were mixed up.",
        advice: "Do not import the pool: ZFS would go by the labels and could overwrite what is whole. Work on copies, and give each device its own labels back (the first 512 KiB and the last 512 KiB).";
    /// A raidz vdev is being expanded.
    ExpansionRunning = "ZC0114", Note, "raidz expansion in progress",
        meaning: "A device is being added to a raidz vdev, and its content is being moved to the new width. What was moved lies by the new geometry, the rest by the old one; both were checked where they lie.",
        causes: "`zpool attach` to a raidz vdev; the pool was exported, or its host went down, before the expansion was finished.",
        advice: "Nothing: the expansion goes on when the pool is imported.";
    /// A feature that a reader may ignore is not known here.
    FeatureUnknown = "ZC0115", Note, "feature not known",
        meaning: "The pool uses a feature that this version does not know, and that is read-only compatible: whoever does not know it can still read everything, and must not write. The check went on. Blocks that only this feature leads to, and space that only it accounts for, were not looked at.",
        causes: "A newer release of OpenZFS, or another system's ZFS (illumos, FreeBSD, macOS, a vendor's).",
        advice: "Nothing for the data. A newer version of zcheck may know the feature.";
    /// The pool has a fault that an older release left behind.
    PoolErratum = "ZC0116", Note, "known fault of an older release",
        meaning: "An older release of ZFS left something in the pool that is not as the format wants it. OpenZFS numbers such faults as errata, and `zpool status` names them. Blocks are not damaged by it.",
        causes: "A pre-release of ZFS on Linux 0.6.3 or 0.8, or encryption without the feature bookmark_v2.",
        advice: "Do what the message says; https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-ER tells more.";
    /// The newest uberblock cannot be used.
    RootLost = "ZC0201", Damaged, "the newest state cannot be read",
        meaning: "The block that the newest uberblock points to, or the object directory below it, has no good copy. Nothing of the pool can be reached in this state.",
        causes: "A crash with a disk that lost writes it had confirmed, a pool imported on two hosts at once, a damaged disk.",
        advice: "Older states, of a few seconds before, may still be whole: `zpool import -Fn` asks whether one is, and `zpool import -F` goes back to it, losing what came after. Copy the devices before that.";
    /// Another state than the newest was asked for.
    StateOlder = "ZC0202", Note, "not the newest state",
        meaning: "With --txg an older state of the pool was checked. What was written since is not in it. ZFS may have used the space of its blocks again since then, so damage found in it need not be damage to the disk.",
        causes: "The option --txg.",
        advice: "Check the newest state too, if it can be read. `zpool import -T TXG -o readonly=on` imports an older one.";
    /// Two states have one txg.
    StateTwins = "ZC0203", Note, "two states of one txg",
        meaning: "The uberblock rings hold two states with the same txg and different roots. The one written last was checked; blocks of the other may have overwritten its own.",
        causes: "The pool was imported by two hosts at once, or two copies of its disks were used and then mixed. A pool that was rewound (`zpool import -F` or `-T`) may have left one, too.",
        advice: "Find out which hosts had the disks. `zpool set multihost=on` prevents it.";
    /// The newest uberblock is from the future.
    UberblockAhead = "ZC0204", Note, "uberblock ahead of its time",
        meaning: "The txg of the newest uberblock is far ahead of its own root block, of every label and of all other uberblocks. Its checksum holds, and what it leads to was checked.",
        causes: "An uberblock written by a recovery tool or by hand, or a bug.",
        advice: "Nothing has to be done for reading the pool. Find out who wrote it.";
    /// A block of the pool does not match its checksum.
    BlockChecksum = "ZC0301", Damaged, "block checksum mismatch",
        meaning: "A copy of the block does not match the checksum in its block pointer. If another copy is good, the block is only degraded, and `zpool scrub` would repair it. If none is, the block is lost.",
        causes: "The storage path (controller, array, cable, copy), a failing disk, memory errors while writing, or something that wrote to the device behind ZFS.",
        advice: "Damaged files: restore them from a backup. Blocks that are only degraded: find the cause, then import the pool and run `zpool scrub`. Look at where the bad copies lie: a regular pattern points at the storage path, not at the disk.";
    /// The checksum is right but the payload does not decompress.
    BlockUndecodable = "ZC0302", Damaged, "block does not decode",
        meaning: "The checksum of the block holds, yet its payload does not decompress to the size that the block pointer records. ZFS returns an error when the file is read, although `zpool scrub` finds nothing.",
        causes: "The block was damaged in memory before its checksum was computed, or written by a faulty compressor.",
        advice: "Restore the file from a backup, and test the memory of the host that wrote it.";
    /// The device did not return the bytes.
    BlockReadError = "ZC0303", Damaged, "block cannot be read",
        meaning: "The device returned an error for a copy of the block.",
        causes: "A failing disk, a bad cable or controller, an image on failing storage.",
        advice: "Copy the device with ddrescue, which tries hard sectors again, and check the copy.";
    /// A block pointer holds values the format does not allow.
    PointerInvalid = "ZC0304", Damaged, "block pointer invalid",
        meaning: "A block with a right checksum holds a block pointer with impossible values: an unknown algorithm, a size or a type out of range, or a level that does not follow from its parent.",
        causes: "Memory errors while the parent block was written, or a bug in the software that wrote it.",
        advice: "ZFS cannot read it either. Restore the file from a backup, and test the memory of the host that wrote it.";
    /// A block's address lies outside its device.
    BlockOutOfRange = "ZC0305", Damaged, "block outside the device",
        meaning: "The address of a copy lies beyond the end of the device, or on a vdev that does not exist.",
        causes: "A device cut short, or a damaged block pointer.",
        advice: "Check the size of the device against its label.";
    /// A block lies on a device that was not given.
    BlockMissing = "ZC0306", Damaged, "block on a missing device",
        meaning: "No copy of the block could be read, and at least one lies on a device that was not given. It may be whole there.",
        causes: "A disk that is unplugged or dead, or a path that was not given.",
        advice: "Give all members of the pool.";
    /// Much of a device is bad, and the pool knows no reason.
    MemberBad = "ZC0307", Degraded, "much of a device is bad",
        meaning: "At least one in ten of the copies and columns on the device is bad, and the pool does not record that the device missed them (its dirty time log does not list their transaction groups). Each bad block has a finding of its own.",
        causes: "A device that was overwritten or restored from an older copy, a mirror side that was attached by copying, writes that a controller lost, a resilver whose log was dropped.",
        advice: "Do not trust the device. Find out what happened to it, then let `zpool scrub` repair it, or replace it.";
    /// A block lies where an image holds nothing that was rescued.
    BlockUnread = "ZC0308", Damaged, "block in a range that was never read",
        meaning: "No copy of the block could be read, and at least one lies in a range that the map given with --map lists as not rescued. What the image holds there was not looked at. The block may be whole on the disk.",
        causes: "A rescue with ddrescue that was stopped early, or that met bad sectors.",
        advice: "Let ddrescue go on with the same map (`ddrescue -d -r3 DISK IMAGE MAP`), then check again. What stays unread is lost: restore it from a backup.";
    /// Ranges of a device cannot be read.
    MemberUnreadable = "ZC0309", Degraded, "ranges of a device cannot be read",
        meaning: "The device returned errors for these bytes. Each was tried at least twice, down to single sectors of the medium (a run of 32 bad sectors ends the search in one block: the rest of that block counts as bad). Only ranges that hold blocks or labels were read. Blocks that have copies there have findings of their own.",
        causes: "A failing disk, a bad cable or controller, an image on failing storage.",
        advice: "Copy the device with ddrescue before it gets worse, and check the copy with --map. Then replace it.";
    /// A device disappeared while it was read.
    MemberGone = "ZC0310", Degraded, "device disappeared during the run",
        meaning: "The device could be opened, and later it, or its end, was no longer there. From then on its copies count as missing, not as corrupt: nothing is known of them.",
        causes: "A disk that was unplugged or gave up, a controller or a network connection that failed, an image that was cut short or is being written anew while it is checked.",
        advice: "Bring the device back and check again. Do not let anything write to an image while it is checked.";
    /// Reads of a device failed at first.
    MemberUnsteady = "ZC0311", Note, "reads of a device failed at first",
        meaning: "Reads of the device failed, and gave all their bytes when they were repeated. Nothing is damaged by that.",
        causes: "A disk that begins to fail, a bad cable, a controller or a network storage under load.",
        advice: "Look at the logs of the host and at the disk's own error counts (`smartctl -a`).";
    /// A device is not the drive that its label names.
    MemberElsewhere = "ZC0312", Note, "member is not the drive its label names",
        meaning: "The pool records by which drive it knew this member (its devid, on Linux a name of /dev/disk/by-id), and the device that was given is another one, as its own names, serial number and WWN say. The content was checked all the same.",
        causes: "The drive was copied to another one, a member was restored from an image, or an adapter or an enclosure reports other names than it did when the pool was last imported.",
        advice: "Nothing, if the copy is meant. Otherwise make sure that the right device was given, and that the original and its copy are never visible to ZFS at the same time.";
    /// A dnode has fields that contradict each other.
    DnodeInvalid = "ZC0401", Damaged, "dnode invalid",
        meaning: "The description of an object (a file, a directory, a table of the pool) holds impossible values. What the object holds cannot be reached.",
        causes: "Memory errors while it was written, or a bug in the software that wrote it.",
        advice: "Restore what is named from a backup, and test the memory of the host that wrote it.";
    /// An object set's header is not one.
    ObjsetInvalid = "ZC0402", Damaged, "object set invalid",
        meaning: "The block at the root of a dataset has a right checksum, but does not describe a dataset. Nothing in it can be reached.",
        causes: "Memory errors while it was written, or a bug in the software that wrote it.",
        advice: "Restore the dataset from a backup.";
    /// A structure of the MOS cannot be parsed.
    MosObjectInvalid = "ZC0403", Damaged, "pool metadata object invalid",
        meaning: "An object of the pool's own metadata has a right checksum but cannot be parsed. What depends on it was not checked.",
        causes: "Memory errors while it was written, or a bug in the software that wrote it.",
        advice: "Copy off what can be read. The pool itself may have to be made anew.";
    /// A claimed intent log ends early.
    IntentLogDamaged = "ZC0404", Damaged, "intent log damaged",
        meaning: "The log of synchronous writes was claimed by an import up to a certain block, and that block or one before it cannot be read; or it was not claimed, and its devices give errors where it goes on. Synchronous writes after that point cannot be replayed.",
        causes: "Damage to a log device, or to the log's blocks on another device.",
        advice: "The file system is consistent as of its last txg; only the last seconds of synchronous writes are lost. Check what databases and NFS clients wrote last.";
    /// An intent log lies on a missing device.
    IntentLogMissing = "ZC0405", Degraded, "intent log on a missing device",
        meaning: "The intent log of a file system or a volume lies on a log device that was not given. Everything up to the newest txg can be read without it; what was written synchronously after that, and was to be replayed at the next import, cannot.",
        causes: "A log device that is unplugged or dead, or a path that was not given.",
        advice: "Give the log device, if there is one. Without it the pool needs `zpool import -m`, which drops what was not replayed; check what databases and NFS clients wrote last.";
    /// The checksum is right, the MAC is not.
    MacWrong = "ZC0501", Damaged, "authentication code mismatch",
        meaning: "The checksum of a block of an encrypted dataset holds, yet its authentication code (MAC) does not: the block, or the code in the pointer to it, is not what was written with the dataset's key. ZFS returns an error when it is read with the key loaded, although `zpool scrub` finds nothing. The codes of indirect blocks are checked without a key; the place of such a block stands for everything below it.",
        causes: "Memory errors between encryption and checksum, a bug of the software that wrote or received it, or somebody who changed the pool without the key.",
        advice: "Restore what is named from a backup or from a snapshot that can still be read, and test the memory of the host that wrote it. If all blocks of a dataset have this finding, its key object is damaged.";
    /// An intent log waits for replay.
    IntentLogWaits = "ZC0601", Note, "intent log waits for replay",
        meaning: "The intent log of a file system or a volume holds synchronous writes that are not in its tree yet: the pool was not exported after them, or was imported without mounting the dataset. They are safe; the next import or mount replays them. Until then `zcheck` and read-only imports see the state before them. Every copy of the log's blocks, and of the data that its records point to, was checked.",
        causes: "A crash, an image taken of a running system, an import with `-N` or `-o readonly=on`, an encrypted dataset whose key was not loaded.",
        advice: "Nothing: import the pool and mount the dataset, and ZFS replays its log. Do not remove log devices before that, and do not import with `-m` or rewind the pool if these writes matter.";
    /// The last block of an intent log is not on every device.
    IntentLogTorn = "ZC0602", Note, "last write to an intent log was interrupted",
        meaning: "The last block of an intent log, or the data it points to, is whole on one device and not on another. ZFS tells nobody that a synchronous write is safe before all devices of the log have it, so this is what a crash in the middle of that write leaves. The good copy is replayed at the next import.",
        causes: "A crash or a power failure during a synchronous write. Damage to one copy of just this block looks the same.",
        advice: "Nothing, if the host went down while the pool was in use. Otherwise look at the device that has the bad copy.";
    /// The pool has a checkpoint.
    CheckpointKept = "ZC0603", Note, "pool has a checkpoint",
        meaning: "The pool keeps an older state of itself, and all space that was freed since. Its blocks were checked too; what is found in them carries the checkpoint's txg.",
        causes: "`zpool checkpoint`.",
        advice: "Nothing. `zpool checkpoint -d` drops it and frees the space; `zpool import --rewind-to-checkpoint` goes back to it.";
    /// Something that was destroyed is not freed yet.
    FreeingRunning = "ZC0604", Note, "destroyed data waits to be freed",
        meaning: "Datasets, snapshots or clones that were destroyed, or blocks that were freed, still take space: ZFS frees them in the background. What is left of their trees was checked as far as it can be read.",
        causes: "The pool was exported, or its host went down, shortly after something was destroyed or deleted.",
        advice: "Nothing: freeing goes on when the pool is imported.";
    /// A receive broke off and can be resumed.
    ReceiveInterrupted = "ZC0605", Note, "interrupted receive",
        meaning: "A stream was being received into a dataset and broke off; what arrived is kept, so that the receive can be resumed. It was checked like everything else.",
        causes: "`zfs receive -s` whose stream ended early.",
        advice: "Nothing. `zfs get receive_resume_token` shows where `zfs send -t` goes on; `zfs receive -A` drops what arrived.";
    /// A device is being removed.
    RemovalRunning = "ZC0606", Note, "device removal in progress",
        meaning: "A top-level vdev is being removed: its content is being copied to the others. What was copied and what was not was checked on the vdev itself, which holds it until the removal is finished.",
        causes: "`zpool remove`; the pool was exported, or its host went down, before the removal was finished.",
        advice: "Nothing: the removal goes on when the pool is imported.";
    /// A scrub or a resilver is not finished.
    ScanRunning = "ZC0607", Note, "scrub or resilver in progress",
        meaning: "A scrub or a resilver of ZFS itself was running, or paused, when the pool was last written. Until a resilver is finished, the devices it fills hold less than the pool's redundancy promises.",
        causes: "`zpool scrub`, or a device that was replaced, attached or brought online.",
        advice: "Nothing: it goes on when the pool is imported.";
    /// Somebody has the pool imported right now.
    PoolInUse = "ZC0608", Note, "pool in use",
        meaning: "A host has the pool imported while it is checked: this one, as its kernel says, or one whose heartbeat (multihost) went on during the check. As long as nothing is written, the result holds; ZC0609 says when something was.",
        causes: "The devices of an imported pool were given.",
        advice: "Export the pool for a check that proves something, or check a snapshot of its devices. Never import it on a second host.";
    /// The pool was written while it was checked.
    PoolChanged = "ZC0609", Note, "pool changed during the check",
        meaning: "When the check ended, the labels held a newer txg than when it began: the pool was written meanwhile. Space that was freed may have been used again before it was read, so that blocks which seem bad may never have been. What was found is listed as notes, no damage is claimed, and the verdict is `incomplete`. What was found good was good when it was read.",
        causes: "The devices of an imported pool were given, or an image that is still being written.",
        advice: "Export the pool and check again, or check a snapshot of all its devices taken at the same moment. On an imported pool `zpool scrub` is the right check.";
    /// A table or a header of a disk image is damaged.
    ImageDamaged = "ZC0701", Degraded, "disk image damaged",
        meaning: "A table or a header of the disk image is damaged, or says what is impossible. What depends on it cannot be read, unless there was a second copy of it that could be used. Only what the check met is told: tables of parts that the pool does not use were not read.",
        causes: "Damage to the file by the storage it lies on, a copy that was not complete, a bug of the program that wrote it.",
        advice: "Copy the image again from where it came from, or restore it. Do not let programs repair it before there is a copy of it.";
    /// A file of a disk image is too short.
    ImageTruncated = "ZC0702", Degraded, "disk image cut short",
        meaning: "A file of the disk image ends before the bytes that its own tables or its descriptor name.",
        causes: "A copy or a download that was not finished, storage that was full.",
        advice: "Copy the file again and compare sizes.";
    /// The images of a chain do not fit together.
    ImageChainMismatch = "ZC0703", Degraded, "chain of disk images does not fit",
        meaning: "The image holds what was written since a snapshot, and the image below it is not the one it was made on, or was changed afterwards. What is read is a mixture of two states, so that damage found in it may not be damage of the disk as it was.",
        causes: "The base of a snapshot was started, repaired or restored by itself; an image of the same name from another machine or time lies in the folder.",
        advice: "Find the image that belongs below, by its date or in a backup. Do not start a machine from this chain.";
    /// An image was not closed.
    ImageUnclean = "ZC0704", Note, "disk image was not closed",
        meaning: "The image is marked as open, or its own log waited for replay. A log was replayed in memory: what was checked is the state after it, and the file was not changed.",
        causes: "The program that had it open crashed, the image is in use, or it was copied while it was in use.",
        advice: "Make sure that no machine runs on it while it is checked. If it was copied from a running machine, copy it again.";
    /// A newer image of the same disk lies beside the one that was given.
    ImageNewerBeside = "ZC0705", Note, "newer disk image beside this one",
        meaning: "Beside the image that was given lies another one that holds what was written to the same disk since a snapshot. What was checked is the state of the disk at that snapshot, not its newest one.",
        causes: "The base of a snapshot was given instead of the newest image.",
        advice: "Give the newest image: what lies below it is found by itself.";
    /// An archive does not match its manifest.
    ImageManifestMismatch = "ZC0706", Degraded, "disk image differs from its manifest",
        meaning: "The archive carries a digest of each file in it, and that of the disk image is not the one of its bytes.",
        causes: "Damage on the way, or a disk image that was changed after the archive was made.",
        advice: "Copy the archive again from where it came from.";
    /// A partition table is damaged or contradicts itself.
    PartitionTableDamaged = "ZC0707", Note, "partition table damaged",
        meaning: "The partition table of the disk is damaged, contradicts its second copy, or does not fit the size of the disk. The member was found nevertheless, and the pool on it is not touched by that. But a system that reads the table may not find it.",
        causes: "Something wrote over the start or the end of the disk; the disk, or the image, was made larger or smaller.",
        advice: "Write the table anew from its good copy (`sgdisk --verify`, then its recovery menu), on a disk that is not in use.";
    /// An image does not say which format its parent has.
    ImageFormatGuessed = "ZC0708", Note, "format of a backing file was guessed",
        meaning: "The image does not say which format the image below it has, so that was told by what it begins with. A raw disk could pretend to be an image of another format.",
        causes: "An old image, or one made by a program that left the format out.",
        advice: "Make sure that the file below is what it seems to be (`qemu-img info --backing-chain`).";
}

impl Kind {
    /// The kind with this code, in any case.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.entry().code.eq_ignore_ascii_case(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ascend() {
        let codes: Vec<_> = Kind::ALL.iter().map(|kind| kind.entry().code).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        assert!(codes.iter().all(|code| code.len() == 6 && code.starts_with("ZC")));
    }

    #[test]
    fn a_code_is_found_in_any_case() {
        assert_eq!(Kind::from_code("zc0301"), Some(Kind::BlockChecksum));
        assert_eq!(Kind::from_code("ZC9999"), None);
    }
}
