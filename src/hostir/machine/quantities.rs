//! The numbers of a machine's file, each within its bounds: a file with other numbers is refused where it is read.

use serde::{Deserialize, Serialize};

/// The largest quantity: products with it stay finite, and times in nanoseconds fit.
const LARGEST: f64 = 1e9;

/// A number above 0 and at most a billion.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Quantity(f64);

/// A time in microseconds, at least 0 and at most a billion.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Micros(f64);

/// A share from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(f64);

/// A number of things, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub struct Count(u32);

impl Quantity {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Micros {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Share {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Count {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<f64> for Quantity {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        match value > 0.0 && value <= LARGEST {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not above 0 and at most a billion")),
        }
    }
}

impl TryFrom<f64> for Micros {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        match (0.0..=LARGEST).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not between 0 and a billion")),
        }
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not between 0 and 1")),
        }
    }
}

impl TryFrom<u32> for Count {
    type Error = String;

    fn try_from(value: u32) -> Result<Self, String> {
        match value {
            0 => Err("0 is too few: at least 1 is needed".to_owned()),
            _ => Ok(Self(value)),
        }
    }
}
