//! Each construct prints back, and its free spellings print the canonical text.

fn printed(text: &str) -> String {
    let (programs, diags) = hostir::load(text);
    let rendered = hostir::diag::render::to_string("test", text, &diags.items);
    assert!(diags.is_empty(), "{rendered}\n{text}");
    programs.iter().map(hostir::print::print).collect()
}

fn body(statements: &str) -> String {
    format!("%HostIrContainer {{ () -> () :\n{statements}}} // %HostIrContainer\n")
}

#[track_caller]
fn stable(statements: &str) {
    let text = body(statements);
    assert_eq!(printed(&text), text);
}

#[track_caller]
fn becomes(free: &str, canonical: &str) {
    assert_eq!(printed(&body(free)), body(canonical));
    stable(canonical);
}

const A: &str = "T0_g_float[iS0{i0}, iS1{8}]";
const B: &str = "T1_g_float[iS2{i0}, iS3{8}]";
const C: &str = "T2_g_float[iS4{i0}, iS5{8}]";

#[test]
fn pointwise() {
    stable(&format!("  {B}\n     = -{A};\n"));
    stable(&format!("  {C}\n     = {A}\n     + {B};\n"));
    stable(&format!("  {C}\n     = {A}\n     * 2;\n"));
    stable(&format!("  {C}\n     = {A}\n     - float(0.5);\n"));
    stable(&format!("  {B}\n     = expf({A});\n"));
    stable(&format!("  {C}\n     = fmax({A}\n    , {B});\n"));
    stable(&format!("  {C}\n     = max({A}\n    , {B});\n"));
    stable(&format!("  {C}\n     = where({A}\n    , {B}\n    , float(0));\n"));
    stable(&format!("  {C}\n     = (float)({A});\n"));
    stable(&format!("  {C}\n     = __to_float({A});\n"));
    stable(&format!("  {C}\n     = (double)std::real({A});\n"));
    stable(&format!("  T3_l___half[iS6{{i0}}]\n     = __float2half({A});\n"));
    becomes(&format!("  {C} = {A} + {B}\n"), &format!("  {C}\n     = {A}\n     + {B};\n"));
    becomes(
        &format!("  {C} = where( {A}, {B},\n float(0) )\n"),
        &format!("  {C}\n     = where({A}\n    , {B}\n    , float(0));\n"),
    );
}

#[test]
fn scalars() {
    stable(
        "  i84 = i82 % 8;\n  b16 = i7 < 0;\n  i18 = where(b16, i14, i7);\n  i19 = -i18;\n  i20 = abs(i19);\n",
    );
    stable("  a5 = {i0, i1}\n  i6 = a5[0]\n  a8 = ReverseArray(a5)\n");
    stable("  d3 = (double)(i2);\n  d4 = ( (double)(i2) ) / double(0.1);\n");
    stable("  c3 = std::complex<float>((1,2.5)) * c2;\n");
    stable(&format!("  s4 = getMetaData({A})\n  a5 = s4.logical_size\n"));
    stable("  i5\n     = Set( i4, cache_op=Streaming )\n");
    becomes("  i84 = (i82 + 1) % 8\n", "  i84 = ( i82 + 1 ) % 8;\n");
    becomes("  i84 = i82 + 1 * 8\n", "  i84 = i82 + ( 1 * 8 );\n");
}

#[test]
fn shapes() {
    stable(&format!("  {B}\n     = broadcast( {A}, flags = {{true, false}} )\n"));
    stable(&format!("  {B}\n     = squeeze( {A}, flags = {{}} )\n"));
    stable(&format!("  {B} = expand( {A}, {{i0, 4}} )\n"));
    stable(&format!("  {B} = expand( {A} )\n"));
    stable(&format!("  {B} = repeat( {A} )\n"));
    stable(&format!("  {B} = view( {A} )\n"));
    stable(&format!("  {B} = reshape( {A} )\n"));
    stable(&format!("  {B}\n     = slice( {A}, {{ {{i20, i31, 1}} {{0, i2, 1}} }} )\n"));
    stable(&format!("  {B}\n     = pad( {A}, {{0, 1, -1, i0}} )\n"));
    stable(&format!("  {B}\n     = pad( {A}, {{0, 1}}, value = float(1) )\n"));
    stable(&format!("  {C}\n     = cat( {A}, {B}, 0 )\n"));
    stable(&format!("  {C}\n     = cat( {A}, {B}, {A}, 1 )\n"));
    stable(&format!("  {B}\n     = Set.Permute( {A}, cache_op=Streaming, perm={{1, 0}} )\n"));
    stable(&format!("  {B}\n     = SegmenterSet.Permute( {A} )\n"));
    stable(&format!(
        "  {B}\n     = reduction( {A}, op = add, initial value = float(0), allreduce = false )\n"
    ));
    stable(&format!(
        "  {B}\n     = reduction( {A}, op = fmax, initial value = double(-inf), allreduce = true )\n"
    ));
    stable(&format!(
        "  {A}\n     = full({{i0, 8}}, float(0));\n  T9_g_float[]\n     = full({{}}float(0));\n"
    ));
    stable("  T3_g_int64_t[iS0{i0}]\n     = iota(i0, 0, 1, int64_t);\n");
}

#[test]
fn gemms() {
    stable(&format!("  {C}\n     = matmul({A},\n              {B})\n"));
    stable(&format!("  {C}\n     = linear({A},\n              {B}    )\n"));
    stable(&format!("  {C}\n     = linear({A},\n              {B}    ,\n          {A}    )\n"));
    becomes(
        &format!("  {C} = matmul({A}, {B})\n"),
        &format!("  {C}\n     = matmul({A},\n              {B})\n"),
    );
}

#[test]
fn memory() {
    stable(&format!(
        "  {A} = ALLOCATE(buffer={A}, mem_type=global, size=( i0 * 8 ), zero_init=false, resets_to_zero=false)\n"
    ));
    stable(&format!(
        "  {A} = ALLOCATE(buffer={A}, mem_type=global, size=1, zero_init=true, resets_to_zero=false)\n    .alias={B}\n"
    ));
    stable(&format!("  {A} = ALLOCATE(mem_type=symmetric, zero_init=false)\n"));
    let long =
        format!("  {A} = ALLOCATE(buffer={A}, mem_type=global, size=( i0 * 8 ), zero_init=false");
    let short = format!("  {A} = ALLOCATE(mem_type=global, zero_init=false");
    stable(&format!("{long}, resets_to_zero=false, keep=false)\n"));
    stable(&format!("{short}, keep=true)\n"));
    becomes(
        &format!("{long}, resets_to_zero=false, keep=true)\n"),
        &format!("{long}, resets_to_zero=false)\n"),
    );
    becomes(&format!("{short}, keep=false)\n"), &format!("{short})\n"));
    stable(&format!("  Deallocate {{\n    {A}\n  }}\n"));
    stable(&format!("  {B} = ShardByStream({A}, stream_index=i3)\n"));
    stable(&format!("  {B} = ShardByStream({A}, stream_index = i3)\n"));
    stable(&format!("  {B} = SymmetricContiguousView({A})\n"));
    stable(&format!("  {B}\n     = select( {A}, axis = iS0{{i0}}, index = ( i3 % 4 ) )\n"));
    becomes(
        &format!("  {B} = HirAliasSelect( {A}, axis = 1, index = 0 )\n"),
        &format!("  {B}\n     = HirAliasSelect( {A}, axis = iS1{{8}}, index = 0 )\n"),
    );
    becomes(
        &format!(
            "  {A} = ALLOCATE(size=i0, resets_to_zero=false, zero_init=false,\n    buffer=T0, mem_type=global)\n"
        ),
        &format!(
            "  {A} = ALLOCATE(buffer={A}, mem_type=global, size=i0, zero_init=false, resets_to_zero=false)\n"
        ),
    );
}

#[test]
fn communications() {
    for kind in ["Allgather", "AllToAll", "ReduceScatter"] {
        stable(&format!(
            "  Communication 3 (type={kind}, team=(0 1), input={A}, output={B}, backend=UCC)\n"
        ));
    }
    stable(&format!(
        "  Communication 3 (type=Broadcast, team=(3), root=streamIdx, input={A}, output={B})\n"
    ));
    stable(&format!(
        "  Communication 3 (type=Reduce, team=(0 1), root=0, red_op=max, input={A}, output={B}, backend=NCCL)\n"
    ));
    stable(&format!(
        "  P2PCommunication 4 (type=recv, buffer={A}, peer=i90, backend=CUDA)\n  P2PCommunication 5 (type=send, buffer={A}, peer=( rank + 1 ), backend=CUDA)\n"
    ));
    stable(&format!(
        "  CollectivePermute 7 (team=(0 1), send_peer=i1, recv_peer=( i2 + 1 ), input={A}, output={B}, backend=NCCL)\n  Wait(Communication 7)\n"
    ));
    stable(&format!(
        "  Dispatch 8 (num_experts=4, backend=NCCL, in={A}, topk_idx={B}, topk_weights={B}, out={C})\n"
    ));
    stable(&format!(
        "  Combine 9 (backend=NCCL, in={A}, topk_weights={B}, src_idx={B}, out={C})\n"
    ));
    stable(&format!(
        "  ShareMemHandles(P2PCommunication 37 (type=recv, buffer={A}, peer=0, backend=CUDA), P2PCommunication 38 (type=send, buffer={A}, peer=0, backend=CUDA), \n"
    ));
    let rooted = |how: &str, wait: &str| {
        let head = "  Communication 3 (type=Broadcast, team=(1 0)";
        format!("{head}, root=1{how}, input={A}, output={B}, backend=NCCL)\n  {wait}\n")
    };
    let (words, call) = ("Wait Communication 3", "Wait(Communication 3)");
    stable(&rooted(", root_as=position", words));
    stable(&rooted(", root_as=rank", call));
    becomes(&rooted(", root_as=rank", words), &rooted("", words));
    becomes(&rooted(", root_as=position", call), &rooted("", call));
    stable("  StartCoalescing\n  EndCoalescing 32\n  Wait Communication 32\n");
    becomes(
        "  Wait Communication 3\n  Wait(Communication 4)\n",
        "  Wait Communication 3\n  Wait Communication 4\n",
    );
}

#[test]
fn control() {
    stable("  FOR i83 in iS0{8}:\n    Synchronize Stream i83\n  FOR i83 in iS0{8}:\n");
    stable("  FOR i83 in iS0{8} from 1 to 7 step 2:\n    Synchronize Stream i83\n");
    stable("  FOR i83 from 0 to ( i0 + 1 ):\n    Synchronize(Stream i83)\n");
    stable("  FOR i83 from 0 to 8 step 2:\n    Synchronize(Stream i83)\n");
    stable("  IF Manual true:\n    StartCoalescing\n  ELSE:\n    EndCoalescing 1\n");
    stable("  IF Manual ( i0 == rank ):\n  ELSE:\n    EndCoalescing 1\n");
    stable("  Stream 0x174e5c80 = GetCurrentStream()\n  SetCurrentStream(Stream 0x174e5c80)\n");
    becomes(
        "  FOR streamIdx in istreamIdx0{8} { IF Manual ( streamIdx == 0 ) { StartCoalescing } ELSE { EndCoalescing 1 } }\n",
        "  FOR streamIdx in istreamIdx0{8}:\n    IF Manual ( streamIdx == 0 ):\n      StartCoalescing\n    ELSE:\n      EndCoalescing 1\n",
    );
    becomes(
        "  FOR i1 in iS0{8}:\n          StartCoalescing\n          EndCoalescing 1\n",
        "  FOR i1 in iS0{8}:\n    StartCoalescing\n    EndCoalescing 1\n",
    );
}

#[test]
fn launches() {
    stable(&format!(
        "  LaunchKernel(\n    Group ID: 0,\n    Inputs: {{{A}, {B}}},\n    Outputs: {{{C}}},\n  )\n"
    ));
    stable(&format!("  PostOnStream (HostUnit0, Inputs:{{{A}, i0, }}, Outputs:{{{C}, }})\n"));
    becomes(
        &format!("  LaunchKernel(Group ID: 0, Inputs: {{{A}}}, Outputs: {{{C}}})\n"),
        &format!(
            "  LaunchKernel(\n    Group ID: 0,\n    Inputs: {{{A}}},\n    Outputs: {{{C}}},\n  )\n"
        ),
    );
}

#[test]
fn tensors() {
    for text in [
        "T5_l_float[iblockIdx.x34{1}, iUS35{1}, ithreadIdx.x33{128}] ca_pos( 3 ) produce_pos( 2 )",
        "T7_sym_float[?S13{( ( -( fmax(0, i1) ) ) + i2 )}rf, nS4{128}, bS3{1 ex i5}]",
        "T3_g_std::complex<float>[] (DeviceMesh{5})",
        "T3_g___bfloat[iV7{4}_p] (DeviceMesh{{0 1 2}{3 4 5}})",
        "T3_g_int[ideviceIdx.y7{4}] (DeviceMesh{{{0 1}{2 3}}{{4 5}{6 7}}})",
        "T3_g_int[iS7{4}] (DeviceMesh{{0}{1}})",
        "T3_g_int[iS7{4}] (DeviceMesh{{0 1}})",
        "T3_g_int[iS7{0 : 4 : 8}]",
        "T3_g_int[iS7{( (( (( getMetaData(T0) )).logical_size ))[0] )}]",
    ] {
        stable(&format!("  {A}\n     = relu({B});\n  {text}\n     = relu({A});\n"));
    }
    becomes(
        &format!("  {B} = relu({A})\n  {C} = T0 + T1\n"),
        &format!("  {B}\n     = relu({A});\n  {C}\n     = {A}\n     + {B};\n"),
    );
}

#[test]
fn frames() {
    for text in [
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n",
        "%HostIrContainer { (T0_g_float[iS0{i0}], T0_g_float[iS0{i0}], i0) -> (T0_g_float[iS0{i0}]T0_g_float[iS0{i0}]) :\n} // %HostIrContainer\n",
        "%HostIrContainer { () -> () :\n} // %HostIrContainer\n\nAliases:{\n  T1_g_float[] -> T0_g_float[]\n}\n",
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\nIndex definitions:\n  i84 = i82 % 8;\n\n",
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n",
        "hir 1\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n",
        "// a\n\n// b\n%HostIrContainer { () -> () : // c\n  // d\n  StartCoalescing // e\n  FOR i1 in iS0{8}: // f\n    StartCoalescing\n    // g\n  // h\n} // %HostIrContainer\n// i\n",
    ] {
        let again = printed(text);
        let comments_first = text.replace("// a\n\n// b", "// a\n// b");
        assert!(again == text || again == comments_first, "{again}\n---\n{text}");
    }
}
