;; expect: 1.15
;; role: tokenizer
(func (export "load") (param i32 i32) (result i32) (loop $l (br $l)) (i32.const 0))
