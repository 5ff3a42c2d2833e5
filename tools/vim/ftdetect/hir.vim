" Host programs, in both notations.
autocmd BufNewFile,BufRead *.hir setfiletype hir
