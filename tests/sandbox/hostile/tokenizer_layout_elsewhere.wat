;; expect: 1.15
;; role: tokenizer
(func (export "layout") (result i32) (i32.const -64))
