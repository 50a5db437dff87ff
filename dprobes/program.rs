// SPDX-License-Identifier: GPL-2.0

//! Loaded programs, and their points as the registry sees them.
//!
//! A point is attached when its program is loaded; a point in a module when the module is loaded.
//! It is detached once its program never runs again. A watchpoint with an address from a program is
//! attached again for each address.
//!
//! Contexts: process; sleeps. Locks: those that attaching a point takes.
#![deny(unsafe_code)]

use ferro_dprobes_core as rpn;
use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::PointRef;
use ferro_dprobes_core::ProgramRef;
use ferro_dprobes_core::SetHeader;
use ferro_dprobes_core::IGNORE_OPCODES;
use ferro_dprobes_core::MERGE;
use ferro_dprobes_core::REPLACE;
use ferro_dprobes_core::UNSAFE_WRITES;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::attachment::HasAttachment;
use crate::attachment::OpcodeCheck;
use crate::error::CommandError;
use crate::hit_context::PointEnv;
use crate::location::Location;
use crate::point::Point;
use crate::raw::permission::Permission;
use crate::runtime::Output;
use crate::runtime::Runtime;
use crate::variables::Variables;
use crate::watch_request::WatchRequest;
use crate::watch_request::WatchRequests;

/// Loaded program. Dropping it detaches its points, and waits for their handlers.
pub(crate) struct Program {
    pub(crate) name: CString,
    pub(crate) header: rpn::Header,
    pub(crate) set: SetHeader,
    pub(crate) locals: Arc<Variables>,
    pub(crate) points: KVVec<ProgramPoint>,
}

impl Program {
    /// Builds a program without beginning its points. Attaches them, except those in modules. The
    /// caller must not hold a lock: see [`Attachment::new`].
    pub(crate) fn new(
        program: &ProgramRef<'_>,
        set: SetHeader,
        locals: Arc<Variables>,
        runtime: &Arc<Runtime>,
    ) -> Result<Self, CommandError> {
        let mut new = Self {
            name: CString::try_from_fmt(fmt!("{}", program.name))?,
            header: program.header,
            set,
            locals,
            points: KVVec::with_capacity(usize::try_from(program.len())?, GFP_KERNEL)?,
        };
        let watch_requests = Arc::new(WatchRequests::new(program)?, GFP_KERNEL)?;
        for point in program.points() {
            let permission = match set.flags & UNSAFE_WRITES != 0 {
                true => Some(Permission::obtain().ok_or(EPERM)?),
                false => None,
            };
            let env = PointEnv {
                locals: new.locals.clone(),
                runtime: runtime.clone(),
                output: Output {
                    fields: u16::try_from(set.fields)?,
                    target: set.target,
                },
                permission,
                watch_requests: watch_requests.clone(),
            };
            let mut point = ProgramPoint::new(&new, &point, env)?;
            if !new.is_of_module() {
                point.attachment = point.attach(&new.name)?;
            }
            new.points.push(point, GFP_KERNEL)?;
        }
        Ok(new)
    }

    /// Returns true if this is its name.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.name.to_bytes() == name
    }

    /// Returns true if its points are in a module.
    pub(crate) fn is_of_module(&self) -> bool {
        self.header.kind == ModuleKind::Module
    }

    /// Checks that a new program of this name may replace this one, or be merged into it. Errors:
    /// -EEXIST, -EINVAL.
    pub(crate) fn accepts(&self, header: &rpn::Header, set: SetHeader) -> Result<(), CommandError> {
        if set.flags & (REPLACE | MERGE) == 0 {
            return Err(CommandError::program(
                EEXIST,
                &*self.name,
                "is loaded already",
            ));
        }
        if set.flags & MERGE == 0 {
            return Ok(());
        }
        // The status shows these properties once for a program, so all its points must share them.
        let why = if self.header.kind != header.kind {
            "is of another kind than the points that are added"
        } else if (self.set.flags ^ set.flags) & UNSAFE_WRITES != 0 {
            "and the points that are added do not both have UNSAFE_WRITES"
        } else if self.set.target != set.target {
            "has another target of its log than the points that are added"
        } else if (self.header.jmpmax, self.header.logmax) != (header.jmpmax, header.logmax) {
            "has another jmpmax or logmax than the points that are added"
        } else if self.locals.len() < usize::try_from(header.locals)? {
            "has fewer local variables than the points that are added"
        } else {
            return Ok(());
        };
        Err(CommandError::program(EINVAL, &*self.name, why))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        Attachment::detach_all(&mut self.points);
    }
}

/// Point of a loaded program.
pub(crate) struct ProgramPoint {
    // Dropped in this order.
    pub(crate) attachment: Attachment,
    pub(crate) location: Location,
    pub(crate) point: Arc<Point>,
    opcodes: OpcodeCheck,
    /// Hits missed by attachments that have been detached.
    missed: usize,
}

impl HasAttachment for ProgramPoint {
    fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    fn attachment_mut(&mut self) -> &mut Attachment {
        &mut self.attachment
    }
}

impl ProgramPoint {
    fn new(program: &Program, point: &PointRef<'_>, env: PointEnv) -> Result<Self> {
        Ok(Self {
            attachment: Attachment::Detached(DetachReason::Waiting),
            location: Location::new(program.header.kind, &program.name, point)?,
            point: Arc::new(Point::new(&program.header, point, env)?, GFP_KERNEL)?,
            opcodes: match program.set.flags & IGNORE_OPCODES != 0 {
                true => OpcodeCheck::Ignore,
                false => OpcodeCheck::Compare,
            },
            missed: 0,
        })
    }

    /// Attaches the point, whose program has this name.
    fn attach(&self, name: &CStr) -> Result<Attachment, CommandError> {
        self.try_attach()
            .map_err(|error| CommandError::location(error, name, &self.location))
    }

    /// Attaches the point in a module. If the module is not loaded, the point waits for it.
    pub(crate) fn attach_in_module(&self, name: &CStr) -> Result<Attachment, CommandError> {
        match self.try_attach() {
            Err(error) if error == ENOENT => Ok(Attachment::Detached(DetachReason::Waiting)),
            Err(error) => Err(CommandError::location(error, name, &self.location)),
            Ok(attachment) => Ok(attachment),
        }
    }

    fn try_attach(&self) -> Result<Attachment> {
        Attachment::new(&self.location, &self.point, self.opcodes)
    }

    /// Takes the attachment of a point in a module that was loaded again or is about to be
    /// unloaded.
    pub(crate) fn detach_from_module(&mut self) -> Option<Attachment> {
        match self.attachment {
            Attachment::Detached(_) => None,
            _ => Some(self.detach(DetachReason::Waiting)),
        }
    }

    /// Updates a detached point in a module that has been loaded or is about to be unloaded.
    pub(crate) fn module_changed(&mut self, is_loaded: bool) {
        // A set that was loaded since has attached its points already.
        if !matches!(self.attachment, Attachment::Detached(_)) {
            return;
        }
        let mut reason = DetachReason::Waiting;
        if let Some(request) = self.point.watch_request() {
            request.reset();
            reason = DetachReason::Disarmed;
        }
        if is_loaded && self.point.counter.is_used_up() {
            reason = DetachReason::UsedUp;
        } else if is_loaded {
            let attached = self.try_attach();
            self.attachment =
                attached.unwrap_or_else(|error| Attachment::Detached(DetachReason::of(error)));
            return;
        }
        self.attachment = Attachment::Detached(reason);
    }

    /// Handles the requests of hits. Returns an attachment to be dropped.
    pub(crate) fn handle_requests(&mut self) -> Option<Attachment> {
        let is_attached = !matches!(self.attachment, Attachment::Detached(_));
        if is_attached && self.point.counter.should_detach() {
            let old = self.detach(DetachReason::UsedUp);
            let request = self.point.watch_request();
            request.into_iter().for_each(WatchRequest::close);
            return Some(old);
        }
        let is_requested = self.point.watch_request()?.take_pending();
        is_requested.then(|| self.rearm())
    }

    /// Watches the requested address. Returns the previous attachment, after freeing its debug
    /// register.
    fn rearm(&mut self) -> Attachment {
        let Some(request) = self.point.watch_request() else {
            return Attachment::Detached(DetachReason::Disarmed);
        };
        let wanted = request.wanted();
        if wanted != 0 && wanted == request.watched() {
            return Attachment::Detached(DetachReason::Disarmed);
        }
        let disarmed = Attachment::Detached(DetachReason::Disarmed);
        let old = core::mem::replace(&mut self.attachment, disarmed);
        old.release();
        request.set_watched(0);
        if self.point.counter.is_used_up() {
            request.close();
            self.attachment = Attachment::Detached(DetachReason::UsedUp);
        } else if wanted != 0 {
            self.attachment = match Attachment::at(wanted as u64, &self.point) {
                Ok(attachment) => {
                    request.set_watched(wanted);
                    attachment
                }
                Err(error) => Attachment::Detached(DetachReason::of(error)),
            };
        }
        old
    }

    /// Takes the attachment. Keeps its count of missed hits.
    fn detach(&mut self, reason: DetachReason) -> Attachment {
        self.missed = self.missed();
        core::mem::replace(&mut self.attachment, Attachment::Detached(reason))
    }

    /// Returns the number of hits that did not reach the point.
    pub(crate) fn missed(&self) -> usize {
        self.missed.saturating_add(self.attachment.missed())
    }
}
