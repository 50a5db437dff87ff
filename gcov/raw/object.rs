// SPDX-License-Identifier: GPL-2.0

//! Objects as constructors pass them, and profiles of Rust code: the compiler's description and the
//! owner.
//!
//! Contexts: process; sleeps.

use core::ops::Deref;

use ferro_gcov_core::Info;
use ferro_gcov_core::Kind;
use ferro_gcov_core::LlvmFile;
use ferro_gcov_core::LlvmFunction;
use ferro_gcov_core::Memory;
use ferro_gcov_core::Part;
use ferro_gcov_core::Profile;
use ferro_gcov_core::ProfileRefusal;
use ferro_gcov_core::Refusal;
use ferro_gcov_core::Section;
use ferro_gcov_core::Sections;
use ferro_gcov_core::Version;
use ferro_gcov_core::PROFILE_VERSION;
use ferro_sys::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::counter_ranges::Builder;
use super::counter_ranges::CounterRanges;
use super::llvm::Description;
use super::owner::Access;
use super::owner::ModuleId;
use super::owner::Owner;

/// Suffix of the name of a raw profile: LLVM's counters for Rust code of the image or of a module.
pub(crate) const PROFILE: &[u8] = b".profraw";

/// Offset of the name's address in a `gcov_info`, in all versions.
const NAME: u64 = 24;

/// Arguments of a constructor, or the linker's description of a profile.
struct ConstructorArgs(bindings::gcov_object);

// SAFETY: Each function that follows a pointer in it states why the module is loaded then; the task
// does not matter.
unsafe impl Send for ConstructorArgs {}
// SAFETY: It is constant.
unsafe impl Sync for ConstructorArgs {}

impl ConstructorArgs {
    fn address(&self) -> usize {
        if !self.0.profile.is_null() {
            return self.0.profile.addr();
        }
        match self.0.writeout {
            Some(function) => function as *const () as usize,
            None => self.0.info.addr(),
        }
    }
}

/// An object offered to the engine, not validated yet.
pub(crate) struct Candidate {
    args: ConstructorArgs,
    owner: Arc<Owner>,
}

/// Name of a file, in the compiler's form.
pub(crate) enum Name {
    /// A name in the kernel's image, which stays.
    Image(&'static [u8]),
    /// A copied name. Boxed to keep the enum small: most names are in the image.
    Own(KBox<KVec<u8>>),
}

impl Name {
    /// Copies a name. Errors: -ENOMEM.
    pub(crate) fn copy(name: &[u8]) -> Result<Self> {
        let mut copy = KVec::with_capacity(name.len(), GFP_KERNEL)?;
        copy.extend_from_slice(name, GFP_KERNEL)?;
        Ok(Self::Own(KBox::new(copy, GFP_KERNEL)?))
    }

    /// Appends a suffix to a copied name. Errors: -ENOMEM.
    fn append(&mut self, end: &[u8]) -> Result {
        match self {
            Self::Own(name) => Ok(name.extend_from_slice(end, GFP_KERNEL)?),
            Self::Image(_) => Ok(()),
        }
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Image(name) => name,
            Self::Own(name) => name,
        }
    }
}

/// Reason why an object is not taken.
pub(crate) enum RejectReason {
    /// The object is malformed.
    Refused(Refusal),
    /// The sections of Rust code are malformed.
    RefusedProfile(ProfileRefusal),
    /// Another error, for example -ENOMEM; the object may be valid.
    Error(Error),
}

impl From<Refusal> for RejectReason {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ProfileRefusal> for RejectReason {
    fn from(refusal: ProfileRefusal) -> Self {
        Self::RefusedProfile(refusal)
    }
}

impl From<Error> for RejectReason {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Candidate {
    /// # Safety
    ///
    /// A constructor or the linker has provided `object`, and its module stays during the call of
    /// the function that gets this candidate. If the module is not being unloaded, the exit on
    /// `module_event` is armed.
    pub(super) unsafe fn new(object: bindings::gcov_object) -> Result<Self> {
        let args = ConstructorArgs(object);
        // SAFETY: The exit closes the owner, or the caller of this function does so at the end of
        // the call.
        let owner = unsafe { Owner::of(args.address()) }?;
        Ok(Self { args, owner })
    }

    /// Returns the module; `None` for the kernel.
    pub(crate) fn module(&self) -> Option<ModuleId> {
        self.owner.module()
    }

    /// Returns the object's address.
    pub(super) fn address(&self) -> usize {
        self.args.address()
    }

    /// Validates the object.
    ///
    /// Errors: the reason, and the object's name as far as it can be read and fits into `name`.
    pub(crate) fn check(self, name: &mut [u8]) -> Result<Object, (RejectReason, &[u8])> {
        let (checked, at) = self.checked();
        match checked {
            Ok((data, ranges)) => Ok(Object { data, ranges }),
            Err(error) => {
                let string = self.owner.access();
                let string = string.and_then(|access| access.string(at, name).ok().flatten());
                Err((error, string.unwrap_or(b"an object without a name")))
            }
        }
    }

    /// Returns the validated object and the address of its name.
    fn checked(&self) -> (Result<(Data, CounterRanges), RejectReason>, u64) {
        // SAFETY: By the rules of `new()` the pointer is the linker's, or NULL, and its module is
        // loaded.
        if let Some(raw) = unsafe { self.args.0.profile.as_ref() } {
            return (self.check_profile(raw), raw.name.addr() as u64);
        }
        if self.args.0.writeout.is_some() {
            // SAFETY: By the rules of `new()` the function is from a constructor, and its module is
            // loaded.
            return match unsafe { Description::of(self.args.0.writeout) } {
                Ok(description) => {
                    let name = description.name;
                    (self.check_llvm(description), name)
                }
                Err(error) => (Err(error.into()), 0),
            };
        }
        let Some(access) = self.owner.access() else {
            return (Err(ENODEV.into()), 0);
        };
        let info = self.args.0.info.addr() as u64;
        let name = access.u64(info.wrapping_add(NAME)).unwrap_or(0);
        (self.check_gcc(&access, info), name)
    }

    fn check_profile(
        &self,
        raw: &bindings::llvm_profile,
    ) -> Result<(Data, CounterRanges), RejectReason> {
        let access = self.owner.access().ok_or(ENODEV)?;
        let section = |address: *mut kernel::ffi::c_void, len: u32| Section {
            address: address.addr() as u64,
            len: len as usize,
        };
        let sections = Sections {
            data: section(raw.data, raw.data_size),
            counters: section(raw.counters, raw.counters_size),
            // Bitmaps of condition coverage, which rustc does not use.
            bits: Section::default(),
            names: section(raw.names, raw.names_size),
        };
        let profile = Profile::check(&access, PROFILE_VERSION, sections)?;
        let mut ranges = Builder::new(self.owner.clone(), sections.counters.address);
        let count = raw.counters_size / 8;
        let added = ranges.add(&access, sections.counters.address, count);
        added.map_err(|error| match error == ENOMEM {
            true => RejectReason::Error(error),
            false => ProfileRefusal::Unreadable.into(),
        })?;
        let name = raw.name.addr() as u64;
        let object = KBox::new(Rust { name, profile }, GFP_KERNEL).map_err(Error::from)?;
        Ok((Data::Rust(object), ranges.finish()?))
    }

    fn check_llvm(&self, description: Description) -> Result<(Data, CounterRanges), RejectReason> {
        let access = self.owner.access().ok_or(ENODEV)?;
        if !access.is_readable(description.name, 1) {
            return Err(Refusal::Unreadable(Part::Name).into());
        }
        let file = LlvmFile::check(
            &access,
            description.version,
            description.checksum,
            &description.functions,
        )?;
        let near = description
            .functions
            .first()
            .map_or(0, |first| first.address);
        let mut ranges = Builder::new(self.owner.clone(), near);
        for (index, function) in (0..).zip(&description.functions) {
            let added = ranges.add(&access, function.address, function.count);
            added.map_err(|error| counters_error(error, index))?;
        }
        let object = Llvm {
            args: ConstructorArgs(self.args.0),
            name: description.name,
            file,
            functions: description.functions,
        };
        let object = KBox::new(object, GFP_KERNEL).map_err(Error::from)?;
        Ok((Data::Llvm(object), ranges.finish()?))
    }

    fn check_gcc(
        &self,
        access: &Access<'_>,
        address: u64,
    ) -> Result<(Data, CounterRanges), RejectReason> {
        let info = Info::check(access, address)?;
        let mut ranges = Builder::new(self.owner.clone(), address);
        for function in info.functions(access) {
            let Some(function) = function? else { continue };
            for set in info.sets(access, &function) {
                let set = set?;
                let added = ranges.add(access, set.address, set.count);
                added.map_err(|error| counters_error(error, function.index))?;
                if set.kind == Kind::TopList {
                    ranges.has_lists();
                }
            }
        }
        Ok((Data::Gcc(info), ranges.finish()?))
    }
}

/// Returns the reason why the counters of a function are not taken: a wrong address, or no memory.
fn counters_error(error: Error, function: u32) -> RejectReason {
    match error == ENOMEM {
        true => RejectReason::Error(error),
        false => Refusal::Unreadable(Part::Counters(function)).into(),
    }
}

/// Compiler's description of an object.
enum Data {
    Gcc(Info),
    Llvm(KBox<Llvm>),
    Rust(KBox<Rust>),
}

/// Description of an LLVM object.
struct Llvm {
    args: ConstructorArgs,
    name: u64,
    file: LlvmFile,
    functions: KVVec<LlvmFunction>,
}

/// Description of a profile of Rust code.
struct Rust {
    name: u64,
    profile: Profile,
}

/// Identity of a compilation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Gcda {
        version: Version,
        stamp: u32,
        checksum: u32,
    },
    /// The merge of two profiles compares their parts instead.
    Profile,
}

/// An object that can be used as long as its module is loaded.
pub(crate) struct Object {
    data: Data,
    ranges: CounterRanges,
}

impl Object {
    /// Returns the object's compilation.
    pub(crate) fn build(&self) -> Build {
        match &self.data {
            Data::Rust(_) => Build::Profile,
            Data::Gcc(info) => Build::Gcda {
                version: info.version(),
                stamp: info.stamp(),
                checksum: info.checksum(),
            },
            Data::Llvm(object) => Build::Gcda {
                version: object.file.version(),
                stamp: object.file.stamp(),
                checksum: 0,
            },
        }
    }

    /// Returns the largest possible length of its file, in bytes.
    pub(crate) fn max_len(&self) -> usize {
        match &self.data {
            Data::Gcc(info) => info.max_len(),
            Data::Llvm(object) => object.file.max_len(),
            Data::Rust(object) => object.profile.file_len(),
        }
    }

    /// Returns the name of its file. Errors: -ENODEV if the module is unloaded, -EFAULT,
    /// -ENAMETOOLONG, -ENOMEM.
    pub(crate) fn name(&self) -> Result<Name> {
        let access = self.access()?;
        let (at, end) = match &self.data {
            Data::Gcc(info) => (info.name_address(), &b""[..]),
            Data::Llvm(object) => (object.name, &b""[..]),
            Data::Rust(object) => (object.name, PROFILE),
        };
        if let Some(name) = access.image_string(at).filter(|_| end.is_empty()) {
            return Ok(Name::Image(name));
        }
        let mut to = KVec::new();
        for size in [256, 4096] {
            to.resize(size, 0, GFP_KERNEL)?;
            let name = access.string(at, &mut to).map_err(|_| EFAULT)?;
            if let Some(name) = name {
                let mut name = Name::copy(name)?;
                name.append(end)?;
                return Ok(name);
            }
        }
        Err(ENAMETOOLONG)
    }

    /// Writes its file and returns the length. Errors: -ENODEV if the module is unloaded; -EIO if
    /// the object has changed.
    pub(crate) fn write(&self, to: &mut [u8]) -> Result<usize> {
        let access = self.access()?;
        match &self.data {
            Data::Gcc(info) => info.write(&access, to).map_err(|_| EIO),
            Data::Llvm(object) => {
                let written = object.file.write(&access, &object.functions, to);
                written.map_err(|_| EIO)
            }
            Data::Rust(object) => object.profile.write(&access, to).map_err(|_| EIO),
        }
    }

    /// Appends its counters to `to` in the order of its file, and returns true. Returns false if
    /// some counters are lists, which a file has in another form. Errors: as for [`Self::write`],
    /// and -ENOMEM.
    pub(crate) fn add_counters(&self, to: &mut KVVec<u64>) -> Result<bool> {
        let access = self.access()?;
        if self.ranges.has_lists {
            return Ok(false);
        }
        self.ranges.copy(&access, to).map(|()| true)
    }

    /// Sets its counters to 0 if the module is loaded.
    pub(crate) fn reset(&self) {
        if let Ok(access) = self.access() {
            self.ranges.zero(&access);
        }
    }

    /// Returns true if all its counters are 0. Errors: as for [`Self::add_counters`].
    pub(crate) fn is_zero(&self) -> Result<bool> {
        let mut counters = KVVec::new();
        self.add_counters(&mut counters)?;
        Ok(counters.iter().all(|counter| *counter == 0))
    }

    /// Returns true if the object is a profile of Rust code.
    pub(crate) fn is_profile(&self) -> bool {
        matches!(self.data, Data::Rust(_))
    }

    /// Returns the arguments of its constructor, or `None` if the module is unloaded. Rust code has
    /// none: no other exporter handles it.
    pub(super) fn constructor_args(&self) -> Option<bindings::gcov_object> {
        let _access = self.access().ok()?;
        Some(match &self.data {
            Data::Gcc(info) => bindings::gcov_object {
                info: info.address() as usize as *mut bindings::gcov_info,
                ..Default::default()
            },
            Data::Llvm(object) => object.args.0,
            Data::Rust(_) => return None,
        })
    }

    /// Returns the module; `None` for the kernel.
    pub(crate) fn module(&self) -> Option<ModuleId> {
        self.ranges.owner().module()
    }

    fn access(&self) -> Result<Access<'_>> {
        self.ranges.owner().access().ok_or(ENODEV)
    }
}
