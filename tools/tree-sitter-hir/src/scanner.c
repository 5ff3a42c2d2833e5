// Lines and blocks of `hir 2`, and words that begin no statement although they look so.
//
// As `layout` of grammar/reference does, it makes NEWLINE, INDENT and DEDENT of columns, and reads a first word of a
// statement (`wait`, `print`) as a name where the sign after it says so: `wait = 1`. All but names are empty tokens in
// front of the blanks; in brackets none is valid, and lines do not matter.
#include "tree_sitter/alloc.h"
#include "tree_sitter/parser.h"

#include <string.h>

enum Token { NEWLINE, INDENT, DEDENT, WORD_NAME, ERROR_RECOVERY };

enum { MAX_BLOCKS = 256, TAB = 8 };

typedef struct {
    uint16_t depth;
    uint16_t columns[MAX_BLOCKS];
} Blocks;

void *tree_sitter_hir_external_scanner_create(void) { return ts_calloc(1, sizeof(Blocks)); }

void tree_sitter_hir_external_scanner_destroy(void *payload) { ts_free(payload); }

unsigned tree_sitter_hir_external_scanner_serialize(void *payload, char *buffer) {
    const Blocks *blocks = payload;
    unsigned length = blocks->depth * sizeof(uint16_t);
    memcpy(buffer, blocks->columns, length);
    return length;
}

void tree_sitter_hir_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    Blocks *blocks = payload;
    blocks->depth = length / sizeof(uint16_t);
    memcpy(blocks->columns, buffer, length);
}

// Skips blanks, and comments that end lines. Gives true if a line begins, with its column.
static bool skip_to_line(TSLexer *lexer, uint32_t *column) {
    bool begins_line = false;
    *column = 0;
    for (;;) {
        switch (lexer->lookahead) {
        case '\n':
            begins_line = true;
            *column = 0;
            break;
        case '\r':
            break;
        case ' ':
            *column += 1;
            break;
        case '\t':
            *column = (*column / TAB + 1) * TAB;
            break;
        case '/':
            lexer->advance(lexer, true);
            if (lexer->lookahead != '/') return begins_line;
            while (lexer->lookahead != '\n' && !lexer->eof(lexer)) lexer->advance(lexer, true);
            continue;
        default:
            if (!lexer->eof(lexer)) return begins_line;
            *column = 0;
            return true;
        }
        lexer->advance(lexer, true);
    }
}

static bool scan_line(Blocks *blocks, TSLexer *lexer, const bool *valid, uint32_t column) {
    uint32_t own = blocks->depth > 0 ? blocks->columns[blocks->depth - 1] : 0;
    if (valid[INDENT] && column > own && blocks->depth < MAX_BLOCKS) {
        blocks->columns[blocks->depth++] = (uint16_t)column;
        lexer->result_symbol = INDENT;
        return true;
    }
    if (valid[DEDENT] && column < own) {
        blocks->depth -= 1;
        lexer->result_symbol = DEDENT;
        return true;
    }
    // In a group, neither the sign between two statements nor the end is a line's first statement.
    if (valid[NEWLINE] && lexer->lookahead != '}' && lexer->lookahead != ';') {
        lexer->result_symbol = NEWLINE;
        return true;
    }
    return false;
}

static bool is_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }

static bool is_in(const char *word, const char *words) {
    const char *found = strstr(words, word);
    return found != NULL && found[strlen(word)] == ' ' && found[-1] == ' ';
}

// True if a word is a name before this character.
static bool is_name(const char *word, int32_t next, bool is_equals) {
    bool is_target = is_equals || next == ':' || next == '[' || next == ',';
    bool is_call = next == '(';
    if (is_in(word, " wait sync stream assert for if ")) return is_target;
    if (is_in(word, " free alias print ")) {
        return is_target || is_call || (next == '\n' && strcmp(word, "print") == 0);
    }
    if (is_in(word, " style sizes streams names mesh import kernel file ")) return is_call || is_target;
    if (strcmp(word, "launch") == 0) return next != '"';
    if (strcmp(word, "share") == 0) return next != '{';
    if (strcmp(word, "define") == 0) return next != ':';
    return false;
}

// A word of the language that is a name here.
static bool scan_word_name(TSLexer *lexer) {
    char word[16];
    size_t length = 0;
    while (is_letter(lexer->lookahead) || (length > 0 && is_digit(lexer->lookahead))) {
        if (length + 1 == sizeof(word)) return false;
        word[length++] = (char)lexer->lookahead;
        lexer->advance(lexer, false);
    }
    if (length == 0 || lexer->lookahead == '.') return false;
    word[length] = 0;
    lexer->mark_end(lexer);
    while (lexer->lookahead == ' ' || lexer->lookahead == '\r') lexer->advance(lexer, false);
    int32_t next = lexer->lookahead;
    bool is_equals = next == '=';
    if (is_equals) {
        lexer->advance(lexer, false);
        is_equals = lexer->lookahead != '=';
    }
    lexer->result_symbol = WORD_NAME;
    return is_name(word, next, is_equals);
}

bool tree_sitter_hir_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
    if (valid[ERROR_RECOVERY]) return false;
    lexer->mark_end(lexer);
    if (valid[NEWLINE] || valid[INDENT] || valid[DEDENT]) {
        uint32_t column;
        if (skip_to_line(lexer, &column) && scan_line(payload, lexer, valid, column)) return true;
    } else {
        while (lexer->lookahead == ' ' || lexer->lookahead == '\n' || lexer->lookahead == '\r') lexer->advance(lexer, true);
    }
    return valid[WORD_NAME] && scan_word_name(lexer);
}
