-- The language server of host programs, for `vim.lsp.enable('hir')` of Neovim 0.11 and later.
return {
  cmd = { 'hir-lsp' },
  filetypes = { 'hir' },
  root_markers = { 'lit.toml', '.git' },
  init_options = { sizes = vim.empty_dict(), proof = true, inlayHints = true },
}
