;; A sampler for vocabularies of up to 49,152 ids whose step is the test's to choose: it stands in place of STEP.
;; Areas: layout 64, rows 8192, results 8320, history 16384 (1,024 ids), bias, config, error, logits from 65536 on.
(module
  (memory (export "memory") 4 4)
  (data (i32.const 64)
    "\58\00\00\00" "\00\00\00\00" "\01\00\00\00" "\00\c0\00\00"  ;; size, minor, max_rows, vocab_capacity 49152
    "\00\00\01\00" "\00\00\03\00" "\00\20\00\00" "\80\20\00\00"  ;; logits, stride 196608, rows, results
    "\00\40\00\00" "\00\04\00\00" "\00\60\00\00" "\08\00\00\00"  ;; history, 1024 ids, bias 24576, 8 entries
    "\00\70\00\00" "\80\00\00\00" "\00\80\00\00" "\80\00\00\00") ;; config 28672, 128 bytes, error 32768, 128 bytes
  (func (export "sealhost_sampler_v1") (result i32) (i32.const 0))
  (func (export "layout") (result i32) (i32.const 64))
  (func (export "init") (result i32) (i32.const 0))
  (func (export "reset") (result i32) (i32.const 0))
  (func $answer (param $action i32) (param $token i32) (result i32)
    (i32.store (i32.const 8320) (i32.const 16))
    (i32.store (i32.const 8324) (local.get $action))
    (i32.store (i32.const 8328) (local.get $token))
    (i32.const 0))
  (func (export "step") (param i32) (result i32) STEP))
