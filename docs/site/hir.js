// Colours `.hir` text, in both notations, by highlight.js. tools/bless writes the lists of words from the tables of ops.
(function () {
  'use strict';

  const WORDS = 'hir style sizes streams names mesh kernel import from on order logical split ex step current for in if else wait free stream sync share alias launch reads writes reference group assert print define';
  const TYPES = 'f64 f32 f16 bf16 f8e4m3 f8e5m2 f8e8m0 f4e2m1 f4e2m1x2 i8 i16 i32 i64 u8 u16 u32 u64 index bool c64 c128';
  const COMMUNICATIONS = 'allgather allreduce reduce_scatter broadcast send_recv reduce scatter gather all_to_all send recv permute';
  const PRINTED_OPS = 'ALLOCATE Assert CollectivePermute Combine Communication CpAsync CpAsyncBulk CpAsyncBulkTensorTile CutlassNvfp4GroupedMmaOp Deallocate Dispatch EndCoalescing GetCurrentStream GroupedMmaOp GroupedReductionOp GroupedWelford HirAliasSelect LaunchKernel LdMatrix LdTMem P2PCommunication PostOnStream Print ScaledMmaOp SegmenterSet Set SetCurrentStream ShardByStream ShareMemHandles StMatrix StTMem StartCoalescing SymmetricContiguousView Synchronize TensorConstruct Wait Welford';

  function hir(hljs) {
    return {
      name: 'Host program',
      aliases: ['hir'],
      keywords: {
        $pattern: /[A-Za-z_]\w*/,
        keyword: `${WORDS} FOR IF ELSE`,
        type: TYPES,
        built_in: `${COMMUNICATIONS} ${PRINTED_OPS} alloc`,
        literal: 'true false rank own',
      },
      contains: [
        hljs.COMMENT('//', '$', { contains: [{ className: 'doctag', begin: /\b[A-Z][A-Z0-9_-]*:/ }] }),
        { className: 'string', begin: '"', end: '"', illegal: '\\n' },
        { className: 'string', begin: '`', end: '`', illegal: '\\n' },
        { className: 'meta', begin: /^hir \d+(\.\d+)?/ },
        { className: 'meta', begin: /%(HostIrContainer|kernel)\b/ },
        { className: 'meta', begin: /@[A-Za-z_]\w*/ },
        // `T0_g_float[..]` and its short form `T0`
        { className: 'variable', begin: /\bT\d+(_[a-z]+_[A-Za-z_][\w:]*)?(?=\b|\[)/ },
        { className: 'title', begin: /^(kernel )?[A-Za-z_]\w*(?=\([^)]*\) *->)/, keywords: 'kernel' },
        { className: 'number', begin: /\b(0x[0-9a-fA-F]+|\d+(\.(?!\.)\d*)?([eE][-+]?\d+)?)\b/ },
      ],
    };
  }

  hljs.registerLanguage('hir', hir);
  for (const block of document.querySelectorAll('code.language-hir')) {
    block.textContent = block.textContent;
    block.classList.remove('hljs');
    hljs.highlightBlock(block);
  }
})();
