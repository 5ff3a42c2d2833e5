//! Mistakes within a line: a pattern and what a person writes in its place.

/// A kind of mistake that changes a part of a line.
pub(super) struct MistakeRule {
    /// The name of the kind.
    pub(super) kind: &'static str,
    /// Finds the part.
    pub(super) pattern: &'static str,
    /// The text in its place, with `$1` for a group of the pattern.
    pub(super) wrong: &'static [&'static str],
}

const fn rule(kind: &'static str, pattern: &'static str, wrong: &'static [&'static str]) -> MistakeRule {
    MistakeRule { kind, pattern, wrong }
}

/// The kinds, by what they are about.
pub(super) const RULES: &[MistakeRule] = &[
    // Indices.
    rule("index own as rank", r"\b(\w+)\[own\b", &["$1[rank"]),
    rule("index own as 0", r"\b(\w+)\[own\b", &["$1[0"]),
    rule("index own missing", r"\b([A-Z]\w*)\[own\]", &["$1"]),
    rule("index own missing", r"\b([A-Z]\w*)\[own, ", &["$1["]),
    rule("index rank as own", r"\[rank\]", &["[own]"]),
    rule("index rank as 0", r"\[rank\b", &["[0"]),
    rule("index missing", r"\b([A-Z]\w*)\[\w+\]", &["$1"]),
    rule("index added", r"\b([A-Z]\w*)\[(\w+)\]", &["$1[$2, 0]", "$1[0, $2]"]),
    rule("index of several axes swapped", r"\[([\w:]+), ([\w:]+)\]( = Set|[,)]| ->|$)", &["[$2, $1]$3"]),
    rule("index of a loop shifted", r"([A-Z]\w*)\[([a-z])\]", &["$1[$2 + 1]", "$1[$2 - 1]"]),
    rule("index of a loop unshifted", r"\[([a-z]\w*) [+-] 1\]", &["[$1]"]),
    rule("slots changed", r"% 2\b", &["% 3", "% 1"]),
    rule("slots dropped", r"\[(\(?\w+(?: [+-] 1\))?) % 2\]", &["[$1]"]),
    rule("slots changed", r"f32\[2, ", &["f32[1, ", "f32["]),
    // Loops and branches.
    rule("loop bound too large", r"\bfor (\w+) in (\w+)\b", &["for $1 in $2 + 1"]),
    rule("loop bound too small", r"\bfor (\w+) in (\w+)\b", &["for $1 in $2 - 1"]),
    rule(
        "loop in C or Python",
        r"\bfor (\w+) in (\w+):",
        &["for $1 in range($2):", "for (int $1 = 0; $1 < $2; ++$1) {"],
    ),
    rule("loop from 1", r"\bfor (\w+) in (\w+):", &["for $1 in 1..$2:"]),
    rule("condition off by one", r"\bif (.*\S) < ", &["if $1 <= "]),
    rule("condition off by one", r"\bif (.*\S) > ", &["if $1 >= "]),
    rule("condition with =", r"\bif (.*) == ", &["if $1 = "]),
    rule("condition in words", r" && ", &[" and "]),
    rule("condition dropped", r"^(\s+)if [^:]*: (\S)", &["$1$2"]),
    // Peers and roots.
    rule("wrap missing", r"wrap\(([^(),]*), \w+\)", &["$1"]),
    rule("wrap missing", r"\((\w+ \+ \w+)\) % \w+", &["$1"]),
    rule("wrap by %", r"wrap\(([^(),]*), (\w+)\)", &["($1) % $2"]),
    rule("from for to", r"\bto=", &["from=", "dst=", "peer="]),
    rule("to for from", r"\bfrom=", &["to=", "src="]),
    rule("peer at the other side", r"(to=.*|from=.*)(\w) \+ ", &["$1$2 - "]),
    rule("peer at the other side", r"(to=.*|from=.*)(\w) - ", &["$1$2 + "]),
    rule("send for recv", r"\bsend\(", &["recv("]),
    rule("recv for send", r"\brecv\(", &["send("]),
    rule("root changed", r", root=\w+", &[", root=1", ", root=rank", ""]),
    rule("root_as missing", r", root_as=position", &[""]),
    rule("over missing", r", over=[\w.]+", &[""]),
    rule("over of another axis", r"over=(\w+)\.x", &["over=$1.y", "over=$1", "over=x"]),
    rule("over of another axis", r"over=(\w+)\.y", &["over=$1.x"]),
    rule("comm word", r"comm=(\w+)", &["comm=0", "group=$1", "comm=other"]),
    // Words.
    rule("reduction word", r"op=add", &["op=sum", "op=ReduceOp.SUM", "op=mean", "op='sum'"]),
    rule("reduction word", r"op=max", &["op=maximum", "op=MPI.MAX"]),
    rule("op of torch", r"= matmul\(", &["= torch.matmul(", "= mm(", "= matmul2("]),
    rule("op of torch", r"= relu\(", &["= F.relu(", "= ReLU("]),
    rule("op of torch", r"= (\w+) \* (\w+)$", &["= mul($1, $2)"]),
    rule("op of torch", r"\ballgather\(", &["all_gather(", "allGather(", "MPI_Allgather("]),
    rule("op of torch", r"\breduce_scatter\(", &["reducescatter(", "reduce_scater("]),
    rule("op of torch", r"\ballreduce\(", &["all_reduce(", "ncclAllReduce("]),
    rule("op of torch", r"\bbroadcast\((\w+\S*) ->", &["bcast($1 ->"]),
    rule("op of torch", r"\bsend\(", &["isend("]),
    rule("op of torch", r"\brecv\(", &["irecv("]),
    rule("op of torch", r"= Set\(", &["= copy(", "= set("]),
    rule("op of torch", r"Set\.Permute\(", &["transpose(", "permute("]),
    rule("op of torch", r"= alloc$", &["= empty", "= malloc", "= alloc()"]),
    rule("op of torch", r"= view\(", &["= reshape(", "= X.view("]),
    rule("wait as a method", r"\bwait ([a-z]\w*)$", &["$1.wait()", "wait($1)"]),
    rule("rank as a call", r"\brank\b", &["dist.get_rank()", "rank()", "RANK"]),
    // Arguments.
    rule("operands swapped", r"\b(matmul|linear|cat|matmul_add)\(([^(),]+), ([^(),]+)", &["$1($3, $2"]),
    rule("operands swapped", r"= (\S+) ([-/]) (\S+)$", &["= $3 $2 $1"]),
    rule("operand missing", r"\b(matmul|linear|matmul_add)\(([^(),]+), ", &["$1($2"]),
    rule("operand missing", r"\b(matmul|linear)\(([^(),]+), ([^(),]+)\)", &["$1($2)"]),
    rule("arrow swapped", r"\((\S+) -> ([^,)]+)", &["($2 -> $1"]),
    rule("arrow as a comma", r"\((\S+) -> ([^,)]+)", &["($1, $2"]),
    rule("arrow as a result", r"wait (\w+)\((\S+) -> ([^,)]+)", &["$3 = $1($2"]),
    rule("perm changed", r"perm=\[1, 0\]", &["perm=[0, 1]"]),
    rule("perm changed", r"perm=\[(\d), (\d), (\d)", &["perm=[$2, $1, $3", "perm=[$1, $3, $2"]),
    rule("perm missing", r", perm=\[[^\]]*\]", &[""]),
    rule("flags changed", r"flags=\[false, true\]", &["flags=[true, false]"]),
    rule("flags changed", r"flags=\[true, false\]", &["flags=[false, true]"]),
    rule("flags changed", r"flags=\[(\w+), (\w+), (\w+)\]", &["flags=[$3, $2, $1]", "flags=[$2, $3]"]),
    rule("slice changed", r"\[(\d), (\w+) - (\d), 1\]", &["[$1, $2, 1]"]),
    rule("slice as in NumPy", r"slice\((\w+), \[\[(\d), ([^,]+), 1\]", &["slice($1, [$2:$3]"]),
    // Types.
    rule("type without its first axis", r": (f32|bf16|i64)\[[^,\]]+, ", &[": $1["]),
    rule("type without its last axis", r": (f32|bf16|i64)\[([^\]]+), [^,\]]+\]", &[": $1[$2]"]),
    rule("type with swapped axes", r": (f32|bf16|i64)\[([^,\]]+), ([^,\]]+)\]", &[": $1[$3, $2]"]),
    rule(
        "type with swapped axes",
        r": (f32|bf16|i64)\[([^,\]]+), ([^,\]]+), ([^,\]]+)\]",
        &[": $1[$2, $4, $3]", ": $1[$3, $2, $4]"],
    ),
    rule("type not sharded", r"\b[xy]:(\w+)", &["$1"]),
    rule("type sharded", r": f32\[(\w+), ", &[": f32[x:$1, "]),
    rule("type sharded on another axis", r"\[x:(\w+), (\w+)", &["[$1, x:$2"]),
    rule("type with another element", r": f32\[", &[": bf16[", ": float[", ": f64[", ": torch.float32["]),
    rule("type with other brackets", r": f32\[([^\]]*)\]", &[": f32($1)", ": [$1]"]),
    rule("type without r. or b.", r"\[([^\]]*)\b[rb]\.(\w+)", &["[$1$2"]),
    rule("type missing", r"^(\s+[A-Z]\w*): \w+\[[^\]]*\]( @\w+)? = ", &["$1 = "]),
    // Meshes.
    rule("mesh of the program missing", r" on \w+:$", &[":"]),
    rule("mesh of a tensor missing", r"(\]) @\w+", &["$1"]),
    rule(
        "mesh too small or large",
        r"\bmesh (\w+) = 0\.\.(\w+)$",
        &["mesh $1 = 0..$2 - 1", "mesh $1 = 0..$2 + 1", "mesh $1 = 1..$2", "mesh $1 = $2"],
    ),
    rule("streams dropped", r" on streams:", &[":", " on 2:"]),
    rule("streams changed", r"^streams 2$", &["streams 3", ""]),
    rule("stream changed", r"\bstream (\d)", &["stream 0"]),
    rule("sync of another stream", r"\bsync (\d)", &["sync 3", "sync main"]),
    // Groups and handles.
    rule("wait of a call missing", r"\bwait (\w+)\(", &["$1("]),
    rule("wait of a group missing", r"\bwait \{", &["{"]),
    rule("group as two calls", r"^(\s+)(.*)wait \{ (.*); (.*) \}$", &["$1$2wait $3\n$1$2wait $4"]),
    rule(
        "group as two calls",
        r"^(\s+)((?:.*: )?)(\w+) = \{ (.*); (.*) \}$",
        &["$1$2wait $4\n$1$2wait $5", "$1$2$3 = $4\n$1$2$3 = $5"],
    ),
    rule(
        "handle missing",
        r"^(\s+(?:.*: )?)[a-z]\w* = (\{|allgather|allreduce|reduce_scatter|broadcast)",
        &["$1$2", "$1wait $2"],
    ),
    rule("handle of one step", r"(\w+)\[\w+\] = (allreduce|allgather|broadcast)", &["$1 = $2"]),
    // Punctuation.
    rule("colon missing", r"^(\s+(?:for|if|else).*):$", &["$1", "$1 {"]),
    rule("semicolon added", r"^(  .*[\w)\]])$", &["$1;"]),
    rule("bracket missing", r"^(  .*)\)$", &["$1"]),
    rule("square bracket missing", r"\]", &[""]),
    rule("comma missing", r"(\w), (\w)", &["$1 $2"]),
    rule("round for square brackets", r"([A-Z])\[(\w+)\]", &["$1($2)"]),
    rule(":= or ==", r"^(  +\w+) = ", &["$1 := ", "$1 == "]),
    rule("comment of Python", r"^( *)// ", &["$1# "]),
    rule("power or division of Python", r" / ", &[" // "]),
    rule("power or division of Python", r"1 << (\w+)", &["2 ** $1"]),
];
