;; expect: timeout
;; role: tokenizer
(func (export "encode") (param i32 i32) (result i32) (loop $l (br $l)) (i32.const 0))
