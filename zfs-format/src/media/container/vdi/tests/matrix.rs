//! The kinds of VDI images that `qemu-img` makes, against `qemu-img`.

use super::super::super::qemu::{Bench, write_content};
use super::super::super::stored;

#[test]
fn stored_images_hold_what_qemu_img_says() {
    stored::check("vdi");
}

#[test]
fn dynamic_and_static_images() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    for options in ["", "-o static=on"] {
        bench.img(&format!("convert -f raw -O vdi {options} source.raw a.vdi"));
        bench.check("vdi", "a.vdi");
        bench.io("vdi", "a.vdi", &["write -P 0x11 70000 3000", "write -P 0x22 2100k 300k", "write -P 0 4M 1M"]);
        bench.check("vdi", "a.vdi");
    }
    // Nothing was ever written to it.
    bench.img("create -f vdi empty.vdi 100M");
    bench.check("vdi", "empty.vdi");
    bench.io("vdi", "empty.vdi", &["write -P 0x33 99M 1M", "write -P 0x44 50M 1M"]);
    bench.check("vdi", "empty.vdi");
}
