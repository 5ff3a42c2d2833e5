" Host programs: `hir 2` and the form that nvFuser prints.
if exists('b:current_syntax')
  finish
endif

syntax case match

" hir 2
syntax match   hirVersion    "^hir \d\+\(\.\d\+\)\?"
syntax keyword hirHead       style sizes streams names import mesh kernel
syntax match   hirHeadFrom   "\<from\ze \""
syntax keyword hirStatement  stream define wait free sync share alias assert launch print alloc current
syntax keyword hirRepeat     for in step
syntax keyword hirCondition  if else
syntax keyword hirWord       rank own on
syntax keyword hirCollective allgather allreduce reduce_scatter broadcast send_recv reduce scatter gather all_to_all send recv permute
syntax keyword hirType       f64 f32 f16 bf16 f8e4m3 f8e5m2 f8e8m0 f4e2m1 f4e2m1x2 i8 i16 i32 i64 u8 u16 u32 u64 index bool c64 c128
syntax match   hirVerbatim   "`[^`]*`"
syntax match   hirMesh       "@\h\w*"

" The printed form
syntax match   hirContainer  "%HostIrContainer\|%kernel"
syntax match   hirTensor     "\<T\d\+\(_[a-z]\+_\h[A-Za-z0-9_:<>]*\)\?\ze\(\[\|\>\)"
syntax keyword hirPrinted    ALLOCATE Assert CollectivePermute Combine Communication CpAsync CpAsyncBulk CpAsyncBulkTensorTile CutlassNvfp4GroupedMmaOp Deallocate Dispatch EndCoalescing GetCurrentStream GroupedMmaOp GroupedReductionOp GroupedWelford HirAliasSelect LaunchKernel LdMatrix LdTMem P2PCommunication PostOnStream Print ScaledMmaOp SegmenterSet Set SetCurrentStream ShardByStream ShareMemHandles StMatrix StTMem StartCoalescing SymmetricContiguousView Synchronize TensorConstruct Wait Welford
syntax keyword hirPrintedWord FOR IF ELSE from to DeviceMesh
syntax match   hirPrintedWord "\<HostUnit\d\+\>"

" Both
syntax keyword hirBoolean    true false True False
syntax match   hirNumber     "\<\d\+\(\.\d*\)\?\([eE][-+]\?\d\+\)\?\>"
syntax match   hirNumber     "\<0x\x\+\>"
syntax region  hirString     start=+"+ end=+"+ oneline
syntax match   hirComment    "//.*$" contains=hirTodo,hirRun
syntax keyword hirTodo       TODO FIXME contained
syntax match   hirRun        "\<\(RUN\|REQUIRES\|UNSUPPORTED\|XFAIL\|DEFINE\|REDEFINE\|[A-Z][A-Z0-9_-]*\(-NEXT\|-NOT\|-SAME\|-DAG\|-LABEL\|-EMPTY\)\?\):" contained

highlight default link hirVersion    PreProc
highlight default link hirHead       Keyword
highlight default link hirHeadFrom   Keyword
highlight default link hirStatement  Statement
highlight default link hirRepeat     Repeat
highlight default link hirCondition  Conditional
highlight default link hirWord       Special
highlight default link hirCollective Function
highlight default link hirType       Type
highlight default link hirVerbatim   String
highlight default link hirMesh       Type
highlight default link hirContainer  PreProc
highlight default link hirTensor     Identifier
highlight default link hirPrinted    Function
highlight default link hirPrintedWord Statement
highlight default link hirBoolean    Boolean
highlight default link hirNumber     Number
highlight default link hirString     String
highlight default link hirComment    Comment
highlight default link hirTodo       Todo
highlight default link hirRun        SpecialComment

let b:current_syntax = 'hir'
