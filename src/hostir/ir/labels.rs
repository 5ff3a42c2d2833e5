//! Names of HostUnits, meshes, streams and communications for messages: the user's names, else numbers.

use super::ids::MeshId;
use super::program::Program;
use super::text::{expr_text, mesh_text};
use super::{Expr, ExprId, MeshCoordinate};

impl Program {
    /// A communication or a group: `h`, or its number.
    pub fn handle_name(&self, number: u32) -> String {
        self.given.handles.get(&number).map_or_else(|| number.to_string(), |name| self.name(*name).to_owned())
    }
    /// The name that a text gives a communication, `h`; in `hir 2` a number is a name, too: `h7`.
    pub fn written_handle(&self, number: u32) -> Option<String> {
        match self.given.handles.get(&number) {
            Some(name) => Some(self.name(*name).to_owned()),
            None => self.is_hir2().then(|| format!("h{number}")),
        }
    }
    /// A name for a new tensor in an example: the program has nothing of this name.
    pub fn unused_tensor_name(&self) -> String {
        let words = ["U", "V", "W", "Z"].into_iter().map(str::to_owned);
        let numbered = (2..).map(|number| format!("U{number}"));
        let mut names = words.chain(numbered);
        names.find(|name| self.names().find_symbol(name).is_none()).unwrap_or_default()
    }
    /// The HostUnit of a number: `axpy`, or `HostUnit0`.
    pub fn unit_name(&self, number: u32) -> String {
        let unit = self.unit_by_number(number).map(|id| &self.units[id]);
        unit.and_then(|unit| unit.name).map_or_else(|| format!("HostUnit{number}"), |name| self.name(name).to_owned())
    }
    /// A stream as an operand of a statement: `Stream main`, or `Stream 0x1`.
    pub fn stream_name(&self, stream: ExprId) -> String {
        format!("Stream {}", self.stream_text(stream))
    }
    /// The name of a stream: `main`, or `0x1`.
    pub fn stream_text(&self, stream: ExprId) -> String {
        let given = match self.expr(stream) {
            Expr::Hex(address) => self.given.streams.get(address),
            _ => None,
        };
        given.map_or_else(|| expr_text(self, stream), |name| self.name(*name).to_owned())
    }
    /// A coordinate in a mesh: `d.x`, or `DeviceMesh{0 1}.x`.
    pub fn mesh_coordinate_name(&self, mesh: MeshId, coordinate: MeshCoordinate) -> String {
        format!("{}.{}", self.mesh_name(Some(mesh)), coordinate.word())
    }
    /// A mesh: `d`, `DeviceMesh{0 1}` or `no mesh`.
    pub fn mesh_name(&self, mesh: Option<MeshId>) -> String {
        let given = mesh.and_then(|mesh| self.given.meshes.get(&mesh)).map(|name| self.name(*name));
        let default = mesh.and_then(|mesh| self.source.default_meshes.get(&mesh)).map(String::as_str);
        given.or(default).map_or_else(|| mesh_text(self, mesh), str::to_owned)
    }
}
