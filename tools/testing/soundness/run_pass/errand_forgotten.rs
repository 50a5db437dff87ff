// SPDX-License-Identifier: GPL-2.0

//! Requests a deferred call that takes long, leaks it, and unloads: the code that the work item
//! calls would be freed with the module. The work item finishes before that.
#![forbid(unsafe_code)]

use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::deferred_call::OnErrand;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: Client,
    name: "errand_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets an errand",
    license: "GPL v2",
}

struct Slow;

impl OnErrand for Slow {
    fn on_errand(&self) {
        fsleep(Delta::from_millis(300));
        pr_info!("the errand is done\n");
    }
}

struct Client(Pin<KBox<Errand<Slow>>>);

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let errand = || KBox::pin_init(Errand::new::<Error>(Ok(Slow)), GFP_KERNEL);
        let forgotten = errand()?;
        forgotten.ask();
        core::mem::forget(forgotten);
        Ok(Self(errand()?))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Dropping waits for this one.
        self.0.ask();
        let other = KBox::pin_init(Errand::new::<Error>(Ok(Slow)), GFP_KERNEL);
        if let Ok(other) = other {
            other.ask();
            core::mem::forget(other);
        }
    }
}
