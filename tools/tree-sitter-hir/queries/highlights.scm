; Colours of `.hir` text. tools/bless writes the lists of words from the tables of ops and types.

(comment) @comment
(text) @string
(verbatim) @string
[(int) (negative_int) (hex) (float) (version_number)] @number
(bool) @boolean

["hir" "style" "sizes" "streams" "names" "mesh" "kernel" "import" "from" "on" "order" "logical" "split" "ex" "step" "current" "for" "in" "if" "else" "wait" "free" "stream" "sync" "share" "alias" "launch" "reads" "writes" "reference" "group" "assert" "print" "define"] @keyword
["FOR" "IF" "ELSE" "to" "into" "Aliases" "Index" "definitions" "%HostIrContainer" "%kernel"] @keyword

(program (identifier) @function)
(call . (identifier) @function.call)
(dotted_call) @function.call
((call . (identifier) @function.builtin)
  (#any-of? @function.builtin "allgather" "allreduce" "reduce_scatter" "broadcast" "send_recv" "reduce" "scatter" "gather" "all_to_all" "send" "recv" "permute"))

(type . (identifier) @type)
((type . (identifier) @type.builtin)
  (#any-of? @type.builtin "f64" "f32" "f16" "bf16" "f8e4m3" "f8e5m2" "f8e8m0" "f4e2m1" "f4e2m1x2" "i8" "i16" "i32" "i64" "u8" "u16" "u32" "u64" "index" "bool" "c64" "c128"))
(kind) @type.qualifier
(param . (identifier) @parameter)

((name (identifier) @variable.builtin)
  (#any-of? @variable.builtin "rank" "own" "alloc"))

["=" "->" ".." "+" "-" "*" "/" "%" "==" "!=" "<" "<=" ">" ">=" "&&" "||" "&" "|" "^" "<<" ">>" "!" "~"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" ":" "."] @punctuation.delimiter

; The printed form
(tensor) @variable
(domain_head) @type
[(number) (typed_number)] @number
((printed_word) @function
  (#any-of? @function "ALLOCATE" "Assert" "CollectivePermute" "Combine" "Communication" "CpAsync" "CpAsyncBulk" "CpAsyncBulkTensorTile" "CutlassNvfp4GroupedMmaOp" "Deallocate" "Dispatch" "EndCoalescing" "GetCurrentStream" "GroupedMmaOp" "GroupedReductionOp" "GroupedWelford" "HirAliasSelect" "LaunchKernel" "LdMatrix" "LdTMem" "P2PCommunication" "PostOnStream" "Print" "ScaledMmaOp" "SegmenterSet" "Set" "SetCurrentStream" "ShardByStream" "ShareMemHandles" "StMatrix" "StTMem" "StartCoalescing" "SymmetricContiguousView" "Synchronize" "TensorConstruct" "Wait" "Welford"))
