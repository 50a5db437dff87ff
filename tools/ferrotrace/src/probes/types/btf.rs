// SPDX-License-Identifier: GPL-2.0

//! Types from BTF, which most kernels carry with them.

#![deny(unsafe_code)]

use std::path::Path;
use std::path::PathBuf;

use btf_rs::Btf;
use btf_rs::BtfType;
use btf_rs::Type;

use super::Convention;
use super::Error;
use super::Function;
use super::Id;
use super::Member;
use super::Named;
use super::Parameter;
use super::Result;
use super::Shape;
use super::Types;

/// Names of names of types, of which there is an end.
const CHAIN_MAX: usize = 64;

/// The types of a file.
pub struct BtfTypes {
    btf: Btf,
    path: PathBuf,
}

impl BtfTypes {
    /// Reads a file: the kernel's, or with `module` that of a module on top of it.
    pub fn open(path: &Path, module: Option<&Path>) -> Result<Self> {
        let bad = |path: &Path, error: btf_rs::Error| match error {
            btf_rs::Error::IO(source) => Error::Io {
                path: path.into(),
                source,
            },
            error => Error::Bad {
                path: path.into(),
                what: error.to_string(),
            },
        };
        let base = Btf::from_file(path).map_err(|error| bad(path, error))?;
        match module.filter(|module| module.exists()) {
            None => Ok(Self {
                btf: base,
                path: path.into(),
            }),
            Some(module) => Ok(Self {
                btf: Btf::from_split_file(module, &base).map_err(|error| bad(module, error))?,
                path: module.into(),
            }),
        }
    }

    fn bad(&self, error: btf_rs::Error) -> Error {
        Error::Bad {
            path: self.path.clone(),
            what: error.to_string(),
        }
    }

    fn by_id(&self, id: u32) -> Result<Type> {
        self.btf
            .resolve_type_by_id(id)
            .map_err(|error| self.bad(error))
    }

    fn name(&self, ty: &dyn BtfType) -> String {
        // A type without a name has none.
        self.btf.resolve_name(ty).unwrap_or_default()
    }

    /// The type behind other names for it, and whether one of them is `const`.
    fn plain(&self, ty: Id) -> Result<(Type, bool)> {
        let mut id = ty;
        let mut is_const = false;
        for _ in 0..CHAIN_MAX {
            let ty = self.by_id(u32::try_from(id).unwrap_or(u32::MAX))?;
            let next = match &ty {
                Type::Typedef(ty) => ty.get_type_id(),
                Type::Const(ty) => {
                    is_const = true;
                    ty.get_type_id()
                }
                Type::Volatile(ty) | Type::Restrict(ty) => ty.get_type_id(),
                Type::TypeTag(ty) => ty.get_type_id(),
                _ => return Ok((ty, is_const)),
            };
            id = next.unwrap_or(0).into();
        }
        Err(Error::Bad {
            path: self.path.clone(),
            what: format!("type {ty} has no end"),
        })
    }
}

impl Types for BtfTypes {
    fn function(&self, function: Named<'_>) -> Result<Option<Function>> {
        let Ok(found) = self.btf.resolve_types_by_name(function.name) else {
            return Ok(None);
        };
        let function = found.into_iter().find_map(|ty| match ty {
            Type::Func(function) => Some(function),
            _ => None,
        });
        let Some(function) = function else {
            return Ok(None);
        };
        let prototype = self.btf.resolve_chained_type(&function);
        let Type::FuncProto(prototype) = prototype.map_err(|error| self.bad(error))? else {
            return Ok(None);
        };
        let parameters = prototype.parameters.iter();
        let parameters = parameters.filter(|parameter| !parameter.is_variadic());
        Ok(Some(Function {
            parameters: parameters
                .map(|parameter| Parameter {
                    name: self.name(parameter),
                    ty: parameter.get_type_id().unwrap_or(0).into(),
                })
                .collect(),
            returns: match prototype.return_type_id() {
                0 => None,
                id => Some(id.into()),
            },
            convention: Convention::SystemV,
        }))
    }

    fn shape(&self, ty: Id) -> Result<Shape> {
        let (ty, _) = self.plain(ty)?;
        let size = |size: usize| u64::try_from(size).unwrap_or(0);
        Ok(match &ty {
            Type::Int(int) => Shape::Number {
                size: size(int.size()),
                signed: int.is_signed(),
                // Not all compilers say so.
                is_char: int.is_char() || self.name(int) == "char",
            },
            Type::Enum(number) => Shape::Number {
                size: size(number.size()),
                signed: number.is_signed(),
                is_char: false,
            },
            Type::Enum64(number) => Shape::Number {
                size: size(number.size()),
                signed: number.is_signed(),
                is_char: false,
            },
            Type::Ptr(pointer) => {
                let to: Id = pointer.get_type_id().unwrap_or(0).into();
                let (behind, is_const) = self.plain(to)?;
                let to = (!matches!(behind, Type::Void)).then_some(to);
                Shape::Pointer { to, is_const }
            }
            Type::Struct(structure) => Shape::Struct {
                name: format!("struct {}", self.name(structure)),
                size: size(structure.size()),
                align: None,
                by_reference: false,
            },
            Type::Union(union) => Shape::Struct {
                name: format!("union {}", self.name(union)),
                size: size(union.size()),
                align: None,
                by_reference: false,
            },
            Type::Array(array) => Shape::Array {
                of: array.get_type_id().unwrap_or(0).into(),
                len: size(array.len()),
            },
            Type::FuncProto(_) => Shape::Function,
            Type::Float(float) => {
                let name = self.name(float);
                Shape::float(&name, size(float.size()), name.contains("omplex"))
            }
            other => Shape::Other(other.name()),
        })
    }

    fn members(&self, ty: Id) -> Result<Vec<Member>> {
        let (Type::Struct(structure) | Type::Union(structure), _) = self.plain(ty)? else {
            return Ok(Vec::new());
        };
        let members = structure.members.iter();
        Ok(members
            .map(|member| Member {
                name: self.name(member),
                ty: member.get_type_id().unwrap_or(0).into(),
                bit_offset: member.bit_offset().into(),
                bits: member
                    .bitfield_size()
                    .filter(|bits| *bits != 0)
                    .map(u64::from),
            })
            .collect())
    }
}
