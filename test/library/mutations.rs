//! Damaged programs never panic, and what prints without errors prints the same again.

use crate::effort;
use hostir::diag::render;

const SEEDS: &[&str] = &[
    "
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{i2}] (DeviceMesh{0 1})) -> (T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1})) :
  T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i2 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx2{i0}: // loop
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    IF Manual ( StreamIdx == rank ):
      T3_l_float[iS5{i2}]
         = HirAliasSelect( T1, axis = 0, index = StreamIdx )
    ELSE:
      P2PCommunication 30 (type=recv, buffer=T3, peer=StreamIdx, backend=NCCL)
      Wait Communication 30
  PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, })

HostUnit0: Inputs={T0_g_float[iS0{i0}], } -> Outputs={T1_g_float[iS1{i0}], }Inputs:
  T0_g_float[iS0{i0}]
Outputs:
  T1_g_float[iS1{i0}]

%kernel {
T1_g_float[iS1{i0}]
   = broadcast( T0_g_float[iS0{i0}], flags = {true, false} )
} // %kernel
} // %HostIrContainer

",
    "%HostIrContainer { (T0_g_float[iS0{i0}], i0) -> () :
  LaunchKernel(
    Group ID: 0,
    Inputs: {T0},
    Outputs: {T0},
  )
  T2_g_float[iS2{( ceilDiv(i0, 3) )}]
     = slice( T0, { {i20, i31, 1} {0, i2, 1} } )
  T3_g_float[]
     = full({}float(0));
  T2
     = linear(T0,
              T3    ,
          T2    )
  T2 = where(T0, T3, float(0));
  Communication 3 (type=Reduce, team=(0 1), root=0, red_op=max, input=T0, output=T2)
} // %HostIrContainer

Aliases:{
  T2 -> T0
}
Index definitions:
  i84 = i82 % 8;

",
];

/// A small generator of numbers: the same ones in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

fn damage(text: &str, random: &mut Random) -> String {
    const BITS: &[&str] = &[
        "(",
        ")",
        "{",
        "}",
        ",",
        "=",
        "\n",
        "  ",
        "T0",
        "T9",
        "i7",
        "-1",
        "iS0{4}",
        ".",
        "4294967295",
        "// x\n",
    ];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        let to = (at + random.below(12)).min(bytes.len());
        let bit = BITS[random.below(BITS.len())].as_bytes();
        match random.below(4) {
            0 => drop(bytes.drain(at..to)),
            1 => drop(bytes.splice(at..to, bit.iter().copied())),
            2 => drop(bytes.splice(at..at, bit.iter().copied())),
            _ => {
                let copy = bytes[at..to].to_vec();
                let place = random.below(bytes.len());
                drop(bytes.splice(place..place, copy));
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Blank lines behind a comment at the end of a section may be lost.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

#[test]
fn no_panic_and_stable() {
    let mut random = Random(effort::seed(7));
    let mut clean = 0;
    let rounds = effort::cases("HIR_MUTATIONS", 5_000, 500_000) as usize;
    for round in 0..rounds {
        let text = damage(SEEDS[round % SEEDS.len()], &mut random);
        let (mut programs, diags) = hostir::load(&text);
        let printed: String = programs.iter().map(hostir::print::print).collect();
        if diags.is_empty() {
            clean += 1;
            let (again, diags) = hostir::load(&printed);
            let rendered = render::to_string("again", &printed, &diags.items);
            assert!(diags.is_empty(), "{text}\n---\n{rendered}");
            let second: String = again.iter().map(hostir::print::print).collect();
            assert_eq!(lines(&second), lines(&printed), "{text}");
        } else {
            render::to_string("damaged", &text, &diags.items);
        }
        programs.iter_mut().for_each(hostir::ir::renumber);
    }
    assert!(clean > rounds / 50, "only {clean} programs without errors");
}
